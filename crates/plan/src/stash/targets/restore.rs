//! Restore targets: the volumes that each host's data is written into. What does not exist yet is not an error but waited for
//! ([`Missing`]); claims of a StatefulSet and of `volumeClaimTemplates` are made ([`NewClaim`]).

use std::fmt;

use lifeboat_api::stash::{RestoreRule, RestoreTarget};

use super::claims::NewClaim;
use super::{HostPod, HostVolume, Mount, TargetError, TargetFacts};
use crate::stash::hosts::{HostName, HostOf, TargetKind};

/// What was read about the target of a restore.
#[derive(Clone, Debug, PartialEq)]
pub struct RestoreFacts {
    /// The target. For a restore into `volumeClaimTemplates` the kind is [`TargetKind::Claim`] and there is no object.
    pub target: TargetFacts,
    /// The scale that the workload had before a standstill of this restore, or of one before it that left it stopped; None if
    /// the workload's own holds.
    pub replicas: Option<u32>,
    /// Whether the data goes into running pods (`lifeboat.io/restore-running`).
    pub into_running: bool,
}

/// Where the data of a restore goes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RestorePlan {
    /// In the order of ordinals or node names. Empty while the target is missing.
    pub hosts: Vec<RestoreHost>,
    /// Claims to make before the first mover.
    pub new_claims: Vec<NewClaim>,
    /// What the restore waits for; it may start once this is empty.
    pub missing: Vec<Missing>,
}

/// One host of a restore.
#[derive(Clone, Debug, PartialEq)]
pub struct RestoreHost {
    pub name: HostName,
    pub of: HostOf,
    /// The volumes to write, or why the host cannot be restored.
    pub destination: Result<Destination, TargetError>,
}

/// The volumes that a host's data is written into.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Destination {
    /// The running pod that gets the data; None where the claims are written without a pod.
    pub pod: Option<HostPod>,
    pub mounts: Vec<Mount>,
    /// The volumes of the mounts, each once. A claim in `new_claims` is among them.
    pub volumes: Vec<HostVolume>,
}

/// Something that a restore waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    Target { kind: TargetKind, namespace: String, name: String },
    Claim { name: String, of: String },
    /// A pod to restore into while it runs.
    Pod { host: HostName, reason: String },
    /// A StatefulSet without replicas and claims: it is not known which ordinals to restore.
    Ordinals { name: String },
}

impl fmt::Display for Missing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target { kind, namespace, name } => write!(formatter, "{kind} {namespace}/{name}"),
            Self::Claim { name, of } => write!(formatter, "PersistentVolumeClaim {name} of {of}"),
            Self::Pod { host, reason } => write!(formatter, "a Ready pod for host {host} ({reason})"),
            Self::Ordinals { name } => write!(
                formatter,
                "replicas of StatefulSet {name}, which has none and no claims either; scale it up, or set target.replicas"
            ),
        }
    }
}

/// Decides. `rules`: those that hold; a StatefulSet without replicas has the hosts that they list.
pub fn restore_plan(
    facts: &RestoreFacts,
    target: &RestoreTarget,
    rules: &[RestoreRule],
) -> Result<RestorePlan, TargetError> {
    let _ = (facts, target, rules);
    unimplemented!()
}
