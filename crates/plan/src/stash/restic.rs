//! What a Restic backs up: takes its spec and the workloads of its namespace, gives the same members, mounts and policies that a
//! BackupConfiguration has. Called by `invoker::restic`, which checks the spec, and by the controller of Restics.
//!
//! - [`selected`]: the workloads that the selector matches and that no other object controls.
//! - [`members`]: a member for each of them, with the workload's name as alias.
//! - [`mounts`]: one path for each directory; two volumes at one path stay two, distinguished by the volume's
//!   name.
//! - [`InstantRun`]: the session of a Restic that backs up once.
//! - [`Directories`]: where the data is stored, and which snapshots of each directory are kept.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::VolumeMount;
use lifeboat_api::common::LabelSelector;
use lifeboat_api::stash::{
    BackupMember, BackupTarget, ResticSpec, RetentionPolicy, TargetRef, TargetVolume, VolumeSelector,
};
use serde_json::{Value, json};

use super::hosts::TargetKind;
use super::repo_dirs::{DirPrefix, RepoDirError};
use super::retention::{DirectoryPolicy, Policies, Retention};
use super::targets::{CleanPath, Mount, MountPlan, MountedPath, PathError, find_mount};
use crate::json::text;
use crate::label;
use crate::selector::{Selector, SelectorError};

/// The kinds of workloads that a selector may match.
pub const WORKLOADS: [TargetKind; 6] = [
    TargetKind::Deployment,
    TargetKind::StatefulSet,
    TargetKind::DaemonSet,
    TargetKind::ReplicaSet,
    TargetKind::ReplicationController,
    TargetKind::DeploymentConfig,
];

/// The agent that backs up volumes: the server's own movers.
pub const VOLUME_AGENT: &str = "stash";
/// The prefix of directories with volumes.
const PREFIX: &str = "volumes";

/// Why a Restic cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResticError {
    #[error(
        "spec has the earlier form of a Restic ({fields}), which this version does not back up; write it with targetType, volumeSelector and \
         repository"
    )]
    EarlierForm { fields: &'static str },
    #[error("spec.{field} is missing")]
    Missing { field: &'static str },
    #[error("spec.{field} {value:?} is not served by this version; expected {expected}")]
    NotServed { field: &'static str, value: String, expected: &'static str },
    #[error("spec.volumeSelector.selector: {0}")]
    Selector(#[from] SelectorError),
    #[error(transparent)]
    Directory(#[from] RepoDirError),
    #[error("spec.volumeSelector.targetVolumes: {0}")]
    Path(#[from] PathError),
    #[error(
        "spec.volumeSelector.targetVolumes has volume {volume:?} twice; list its directories in one entry"
    )]
    SameVolume { volume: String },
    #[error(
        "spec.volumeSelector.targetVolumes: volume {volume:?} has directory {path} twice; remove one of the two"
    )]
    SameDirectory { volume: String, path: CleanPath },
    #[error(
        "spec.volumeSelector.targetVolumes: directory {path} of volume {volume:?} is not below its mountPath {mount_path}; write the path as \
         it is seen below the mount"
    )]
    NotBelow { volume: String, path: CleanPath, mount_path: CleanPath },
    #[error(
        "spec.volumeSelector.targetVolumes: retentionPolicyName {name:?} is none of spec.retentionPolicies"
    )]
    NoPolicy { name: String },
}

/// Where the data of a Restic is stored, and what is kept of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directories {
    pub prefix: DirPrefix,
    /// The policies that remove snapshots.
    pub policies: Policies,
    /// Those with `dryRun`, which only report.
    pub dry: Policies,
}

impl Directories {
    pub(super) fn of(spec: &ResticSpec, mounts: &MountPlan) -> Result<Self, ResticError> {
        let prefix = DirPrefix::of("spec.prefix", spec.prefix.as_deref(), PREFIX)?;
        let volumes = spec.volume_selector.iter().flat_map(|selector| &selector.target_volumes);
        let (mut policies, mut dry) = (Vec::new(), Vec::new());
        for volume in volumes {
            for path in mounts.paths.iter().filter(|path| path.volume == volume.name) {
                let Some(policy) = policy_of(spec, volume, &path.path)? else { continue };
                let Retention::Keep(keep) = Retention::of(policy) else { continue };
                let (volume, path) = (volume.name.clone(), path.path.to_string());
                let list = if policy.dry_run { &mut dry } else { &mut policies };
                list.push(DirectoryPolicy { volume, path, keep });
            }
        }
        Ok(Self { prefix, policies: Policies::ByDirectory(policies), dry: Policies::ByDirectory(dry) })
    }
}

/// The workloads of a namespace that a selector matches and that have no controller, which is backed up itself, in the order of
/// their names. `all`: by kind, with their metadata at least.
pub fn selected(
    selector: &LabelSelector,
    all: &BTreeMap<TargetKind, Vec<Value>>,
) -> Result<Vec<TargetRef>, SelectorError> {
    let selector = Selector::new(selector)?;
    let is_selected = |object: &&Value| {
        let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
        let labels = labels.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
        let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let is_controlled = owners.into_iter().any(|owner| owner["controller"] == true);
        let is_deleted = object["metadata"]["deletionTimestamp"].is_string();
        !is_controlled && !is_deleted && selector.matches(&labels.collect())
    };
    let reference = |kind: TargetKind, object: &Value| TargetRef {
        api_version: Some(kind.api_version().to_owned()),
        kind: kind.to_string(),
        name: text(object, "/metadata/name").to_owned(),
        namespace: None,
    };
    let mut found: Vec<TargetRef> = WORKLOADS
        .iter()
        .flat_map(|kind| all.get(kind).into_iter().flatten().map(move |object| (*kind, object)))
        .filter(|(_, object)| is_selected(object))
        .map(|(kind, object)| reference(kind, object))
        .collect();
    found.sort_by(|one, other| (&one.name, &one.kind).cmp(&(&other.name, &other.kind)));
    Ok(found)
}

/// A member for each workload.
pub fn members(spec: &ResticSpec, workloads: &[TargetRef]) -> Vec<BackupMember> {
    let volumes = || spec.volume_selector.iter().flat_map(|selector| &selector.target_volumes);
    let mount = |volume: &TargetVolume| VolumeMount {
        name: volume.name.clone(),
        mount_path: volume.mount_path.clone(),
        ..VolumeMount::default()
    };
    let member = |reference: &TargetRef| BackupMember {
        target: Some(BackupTarget {
            alias: Some(reference.name.clone()),
            reference: reference.clone(),
            volume_mounts: volumes().map(mount).collect(),
            args: spec.args.clone(),
            ..BackupTarget::default()
        }),
        runtime_settings: spec.runtime_settings.clone(),
        hooks: spec.hooks.clone(),
        ..BackupMember::default()
    };
    workloads.iter().map(member).collect()
}

/// The mounts of the volumes, and the directories that are stored: without any, the whole volume.
pub fn mounts(selector: &VolumeSelector) -> Result<MountPlan, ResticError> {
    let mut plan = MountPlan::default();
    for volume in &selector.target_volumes {
        let name = volume.name.clone();
        if plan.mounts.iter().any(|mount| mount.volume == name) {
            return Err(ResticError::SameVolume { volume: name });
        }
        let mount_path = CleanPath::new("mountPath", &volume.mount_path)?;
        let mount = Mount { volume: name.clone(), mount_path: mount_path.clone(), sub_path: None };
        let mut wanted = Vec::new();
        for directory in &volume.directories {
            wanted.push(CleanPath::new("path", &directory.path)?);
        }
        if wanted.is_empty() {
            wanted.push(mount_path.clone());
        }
        for path in wanted {
            let is_known = |known: &MountedPath| known.volume == name && known.path == path;
            if plan.paths.iter().any(is_known) {
                return Err(ResticError::SameDirectory { volume: name, path });
            }
            let Some(found) = find_mount(std::slice::from_ref(&mount), &path) else {
                return Err(ResticError::NotBelow { volume: name, path, mount_path });
            };
            plan.paths.push(found);
        }
        plan.mounts.push(mount);
    }
    Ok(plan)
}

/// The policy of a directory of a volume; None if all of its snapshots are kept.
fn policy_of<'a>(
    spec: &'a ResticSpec,
    volume: &TargetVolume,
    path: &CleanPath,
) -> Result<Option<&'a RetentionPolicy>, ResticError> {
    let is_of = |directory: &&lifeboat_api::stash::TargetDirectory| {
        CleanPath::stored(&directory.path).as_ref() == Some(path)
    };
    let Some(name) =
        volume.directories.iter().find(is_of).and_then(|found| found.retention_policy_name.as_deref())
    else {
        return Ok(None);
    };
    let policy = spec.retention_policies.iter().find(|policy| policy.name == name);
    policy.map(Some).ok_or_else(|| ResticError::NoPolicy { name: name.to_owned() })
}

/// Annotation of a Restic that backs up once: a digest of the spec for which its session was created.
pub const INSTANT_RUN: &str = "lifeboat.io/instant-run";

/// The session of a Restic that backs up once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstantRun {
    /// The time in the name of the session: each generation has its own, so that a server that follows a crash creates no second one.
    pub due: Timestamp,
    /// Whether the session was created for the spec as it is now. By the spec and not by its generation, which begins anew if the
    /// object is restored from a backup of the cluster.
    pub is_done: bool,
    digest: String,
}

impl InstantRun {
    pub fn of(
        spec: &ResticSpec,
        annotations: &BTreeMap<String, String>,
        created: Timestamp,
        generation: i64,
    ) -> Self {
        // A spec is plain data, which always has a JSON form.
        let digest = label::digest(&serde_json::to_string(spec).unwrap_or_default());
        let after = SignedDuration::from_secs(generation.saturating_sub(1).max(0));
        Self {
            due: created.checked_add(after).unwrap_or(created),
            is_done: annotations.get(INSTANT_RUN) == Some(&digest),
            digest,
        }
    }

    /// The patch that records the run.
    pub fn note(&self) -> Value {
        json!({"metadata": {"annotations": {INSTANT_RUN: self.digest}}})
    }
}

/// Whether a policy that a directory has requests a prune.
pub fn prunes(spec: &ResticSpec) -> bool {
    let volumes = spec.volume_selector.iter().flat_map(|selector| &selector.target_volumes);
    let named: Vec<&str> = volumes
        .flat_map(|volume| &volume.directories)
        .filter_map(|directory| directory.retention_policy_name.as_deref())
        .collect();
    let asks = |policy: &&RetentionPolicy| policy.prune && !policy.dry_run;
    spec.retention_policies.iter().filter(asks).any(|policy| named.contains(&policy.name.as_str()))
}
