//! Targets: the hosts of a workload or claim, the pod that represents each host, and how the volumes behind its paths
//! are read or written. Takes the facts that crate `stash` gathered ([`TargetFacts`]) and the target of the spec;
//! gives a plan that leaves no decision to the engine. A backup changes nothing, so its plan only names existing
//! objects.
//!
//! - [`MountPlan::of_backup`], [`MountPlan::of_restore`]: mounts and paths of the spec alone; an invoker is Invalid if they fail.
//! - [`backup_plan`]: `TargetFacts` and [`BackupTarget`](lifeboat_api::stash::BackupTarget) -> [`TargetPlan`]: a [`Host`] for each
//!   host, with its pod and parts (one snapshot for each [`HostPart`]), or why it cannot be backed up.
//!   [`continued_plan`]: the plan for a server that continues a backup: hosts whose movers were started need no Ready pod;
//!   [`planned`]: that plan for mounts that were checked before, as those of a Restic.
//! - [`snapshot_plan`]: the plan with driver VolumeSnapshotter: a [`Host`] for each claim; [`template_claims`]: the
//!   claims of a restore.
//! - [`restore_plan`]: [`RestoreFacts`] and [`RestoreTarget`](lifeboat_api::stash::RestoreTarget) -> [`RestorePlan`]:
//!   hosts with the volumes to write, claims to create, and missing objects that the restore waits for.
//! - [`device_errors`]: files that a restore would write into a block volume, and block volumes that it would write
//!   into a file system.
//! - [`HostSource::movers`], [`by_mover`]: the parts of a host, by the mover that can carry them out.
//! - [`pods_of`], [`active_pods`], [`pod_template`], [`claims_of`]: for gathering: the pods and claims of a target.

mod backup;
mod claims;
mod devices;
mod existing_claims;
mod mounts;
mod movers;
mod paths;
mod pods;
mod restore;
mod snapshot_class;
mod snapshotted;
#[cfg(test)]
mod tests;
mod volumes;

pub use backup::{backup_plan, claims_of_replicas, continued_plan, planned, unknown_volumes};
pub use claims::{NewClaim, POD_ORDINAL, TemplateError, claims_of};
pub use devices::{DeviceError, device_errors};
pub use existing_claims::ClaimRemark;
pub use mounts::{Mount, MountPlan, MountedPath, find_mount, mount_above};
pub use movers::{MoverParts, MoverSource, by_mover};
pub use paths::{CleanPath, PathError};
pub(in crate::stash) use pods::has_ended;
pub use pods::{PodsError, active_pods, pod_template, pods_of, why_not_ready};
pub use restore::{Destination, Missing, RestoreFacts, RestoreHost, RestorePlan, restore_plan};
pub use snapshot_class::{SnapshotClassError, check_class};
pub use snapshotted::{SnapshotError, snapshot_plan, template_claims};
pub use volumes::{VolumeError, host_path_refusal};

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::hosts::{HostName, HostOf, TargetKind};
use crate::transfer::attempts::{LIVE, QUIESCED};
use crate::transfer::directory::{ClaimOf, Directory};
use crate::transfer::snapshots;

/// The most hosts of one session: its status has an entry for each, and an object of the API server has a mebibyte and a half.
pub const MOST_HOSTS: usize = 1000;

/// Where upstream mounts a claim that is a target itself.
pub const CLAIM_MOUNT: &str = "/stash-data";

/// The hosts whose movers were started earlier, from their recorded attempts.
pub type SentHosts = BTreeMap<HostName, SentFor>;

/// The volumes that the mover of a host was started for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SentFor {
    /// Those of the pod with this UID.
    Pod(String),
    /// Those of a workload or claim without a pod.
    NoPod,
}

/// What was read about a target and its surroundings.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetFacts {
    pub kind: TargetKind,
    pub name: String,
    pub namespace: String,
    /// The workload or claim; None if it does not exist.
    pub object: Option<Value>,
    /// The ReplicaSets of a Deployment, the ReplicationControllers of a DeploymentConfig: between it and its pods.
    pub between: Vec<Value>,
    /// Pods of the namespace: at least those of the target and those that mount its claims.
    pub pods: Vec<Value>,
    /// Claims of the namespace, by name, with their volumes: at least those of [`claims_of`].
    pub claims: BTreeMap<String, ClaimOf>,
    /// The nodes of the pods, for the kubelet's directory; may be empty if nodes may not be read.
    pub nodes: Vec<Value>,
    pub site: Site,
}

impl TargetFacts {
    /// The target as messages name it.
    pub fn title(&self) -> String {
        format!("{} {}", self.kind, self.name)
    }
}

/// What the cluster and its administrator allow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// The kubelet's directory on nodes without an annotation (`--kubelet-root`).
    pub kubelet_root: String,
    /// Whether movers may mount directories of nodes (`nodeAccess`).
    pub node_access: bool,
    /// Why the namespace admits no pods with hostPath volumes; None if it admits them. See [`host_path_refusal`].
    pub host_path_refusal: Option<String>,
    /// The class that `snapshotClassName` names, if the target has that field.
    pub snapshot_class: Option<SnapshotClass>,
}

/// A VolumeSnapshotClass that a target names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotClass {
    pub name: String,
    /// Its driver; None if the class does not exist.
    pub driver: Option<String>,
}

/// What is backed up of a target.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TargetPlan {
    /// At least one, in the order of ordinals or node names.
    pub hosts: Vec<Host>,
    pub notes: Vec<Note>,
}

/// One host of a backup.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    pub name: HostName,
    pub of: HostOf,
    /// The source of the data, or why the host cannot be backed up. The other hosts are backed up nevertheless.
    pub source: Result<HostSource, TargetError>,
}

/// What is read for a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostSource {
    /// The pod that represents the host; None for a claim that no pod uses, and with zero replicas.
    pub pod: Option<HostPod>,
    /// Without a pod that stands for the host: what its pod is like, from the template of the workload or from a pod that uses the claim. It
    /// decides about the mover's pod as a pod of the host would.
    pub like: Option<Value>,
    /// The volumes of the parts, each once.
    pub volumes: Vec<HostVolume>,
    /// At least one; each becomes one snapshot. None with driver VolumeSnapshotter, which takes a snapshot of the volume.
    pub parts: Vec<HostPart>,
}

impl HostSource {
    /// The pod whose user, tolerations and SELinux options decide about the mover's pod.
    pub fn pod_of_data(&self) -> Option<&Value> {
        self.pod.as_ref().map(|pod| &pod.object).or(self.like.as_ref())
    }

    /// The consistency that is recorded. `quiesced`: a hook before the host ran and succeeded.
    pub fn consistency(&self, quiesced: bool) -> &'static str {
        let is_snapshot = |volume: &HostVolume| matches!(volume.access, VolumeAccess::Snapshot { .. });
        if self.volumes.iter().all(is_snapshot) {
            snapshots::consistency(quiesced)
        } else if quiesced {
            QUIESCED
        } else {
            LIVE
        }
    }
}

/// The pod that represents a host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostPod {
    pub name: String,
    pub uid: String,
    pub node: String,
    /// The whole pod: its user, tolerations and SELinux options decide about the mover's pod.
    pub object: Value,
}

/// A volume of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostVolume {
    /// Its name in the pod; for a claim as target the claim's name.
    pub name: String,
    pub access: VolumeAccess,
}

/// How the files of a volume are reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeAccess {
    /// The claim is mounted by a mover in the target's namespace.
    Claim {
        claim: String,
        /// The node that has the volume attached, if it can be attached to one only.
        node: Option<String>,
        /// It is a device and not a file system.
        block: bool,
    },
    /// The volume's directory on the pod's node, by a mover in the movers' namespace.
    NodeDirectory { node: String, directory: Directory },
    /// A volume created from a CSI snapshot of the claim.
    Snapshot { claim: String, class: String, block: bool },
}

/// One path of a host, which becomes one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPart {
    /// The path as the user has it, and under which it is stored.
    pub path: CleanPath,
    /// The name of one of the host's volumes.
    pub volume: String,
    /// The directory or file below the root of that volume; None for all of it.
    pub sub_path: Option<String>,
}

/// A remark about a plan, for a condition of the member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// One pod is read, and others have files of their own.
    OtherReplicas { target: String, pod: String, others: Vec<String>, volumes: Vec<String> },
    /// A DaemonSet has fewer pods than nodes to run on.
    PodsMissing { target: String, wanted: u64, found: u64 },
    /// A mount is below a path and is not listed itself.
    MountBelowPath { path: CleanPath, mount_path: CleanPath, volume: String },
    /// `snapshotClassName` is set, and this volume has no CSI snapshots.
    ReadLive { volume: String, kind: String },
    /// Driver VolumeSnapshotter takes no snapshots of these volumes, each with its kind.
    WithoutSnapshot { volumes: Vec<String> },
}

impl Note {
    /// The type of its condition.
    pub fn condition(&self) -> &'static str {
        match self {
            Self::OtherReplicas { .. } => "OtherReplicasNotBackedUp",
            Self::PodsMissing { .. } => "PodsMissing",
            Self::MountBelowPath { .. } => "MountBelowPath",
            Self::ReadLive { .. } => "VolumeReadLive",
            Self::WithoutSnapshot { .. } => "VolumesWithoutSnapshot",
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherReplicas { target, pod, others, volumes } => write!(
                formatter,
                "{target}: pod {pod} was read; the replicas {} have files of their own in {}, which are not in this backup; \
                 use a StatefulSet or a shared volume if all of them count",
                others.join(", "),
                volumes.join(", ")
            ),
            Self::PodsMissing { target, wanted, found } => write!(
                formatter,
                "{target} should run on {wanted} nodes and has pods on {found}; the others are not in this backup"
            ),
            Self::MountBelowPath { path, mount_path, volume } => write!(
                formatter,
                "volume {volume} is mounted at {mount_path}, below path {path}; the snapshot of {path} has the files of its own volume \
                 only: list {mount_path} in target.paths to back it up as well"
            ),
            Self::ReadLive { volume, kind } => write!(
                formatter,
                "volume {volume} is a {kind} volume, of which there are no CSI snapshots; its files are read while they may change"
            ),
            Self::WithoutSnapshot { volumes } => write!(
                formatter,
                "volumes {} have no claim, and no snapshot is taken of them; use driver Restic for them if their data counts",
                volumes.join(", ")
            ),
        }
    }
}

/// Why a target, or one host of it, cannot be backed up or restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error("{kind} {namespace}/{name} does not exist; create it, or correct target.ref")]
    NoTarget { kind: TargetKind, namespace: String, name: String },
    #[error("{kind} {name} has no volumes to read; it is backed up and restored by a task: set task.name")]
    NeedsTask { kind: TargetKind, name: String },
    #[error(transparent)]
    Path(#[from] PathError),
    #[error(transparent)]
    Pods(#[from] PodsError),
    #[error(transparent)]
    Volume(#[from] VolumeError),
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The directory of the host in the Repository cannot be used; the message says why.
    #[error("{0}")]
    Directory(String),
}
