//! Decides whether a restore writes at once, stops a workload first, or writes into running pods.

use std::collections::BTreeSet;

use serde_json::Value;

use super::owners::{ScaleOwner, scale_owners, was_scaled_since};
use super::standstill::{RestoreName, Standstill};
use super::uses::VolumeUser;
use super::{FORCE_SCALE, InPlaceSettings, RESTORE_RUNNING};
use crate::stash::hosts::{TargetKind, replicas};

/// What was read about the volumes that a restore writes.
#[derive(Clone, Debug, PartialEq)]
pub struct InPlaceFacts {
    pub kind: TargetKind,
    pub name: String,
    /// The workload; None for claims and for claim templates.
    pub workload: Option<Value>,
    /// The HorizontalPodAutoscalers of the namespace.
    pub autoscalers: Vec<Value>,
    /// The UIDs of the workload's own pods that have not ended, by `targets::active_pods`.
    pub own_pods: BTreeSet<String>,
    /// The pods that use the claims which are written.
    pub users: Vec<VolumeUser>,
    /// The volumes to write that only exist with a pod, each as in `emptyDir volume cache`.
    pub with_pods_only: Vec<String>,
    pub settings: InPlaceSettings,
    /// The standstill that an earlier restore left the workload in.
    pub earlier: Option<Standstill>,
    /// The claims of the target that an earlier restore may have half restored, and that this one does not write.
    pub not_covered: BTreeSet<String>,
    /// Whether the safety copies of the earlier restore have all mounts that this one overwrites.
    pub is_copied: bool,
}

/// How a restore writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InPlace {
    /// The target is claims that nothing uses.
    AtOnce,
    /// The workload is stopped first and scaled back at the end. A workload that is already stopped has the same
    /// steps, because others may start it during the restore.
    Stop(StopPlan),
    /// Into the volumes of running pods, because an annotation requests it.
    IntoRunning,
    /// Pods that will end by themselves still use the claims: decide again later.
    Later { message: String },
}

/// How a workload is stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopPlan {
    /// The scale to which it is set at the end.
    pub replicas: u32,
    /// Whether what is overwritten is copied into the repository before.
    pub safety_copy: bool,
    /// The restore whose safety copy already has the data from before: one that failed and left the workload stopped. A copy of what it
    /// half restored would be of no use, unless the workload ran with it since. With `safety_copy`, what its copies lack is added to them.
    pub safety_of: Option<RestoreName>,
    /// The earlier restore that left the workload stopped with data that may be half restored, if there is one.
    pub held_by: Option<RestoreName>,
    /// The other controllers that set the scale; an annotation allows the restore to stop the workload nevertheless.
    pub forced: Vec<ScaleOwner>,
}

/// Why a restore does not write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InPlaceError {
    #[error(
        "{kind} {name} has to be stopped for the restore, and {owners} would start it again; take it out of their control for the \
         restore, or annotate the restore with {annotation}: \"true\" if they leave the scale alone",
        owners = listed(.owners), annotation = FORCE_SCALE
    )]
    ScaleOwned { kind: TargetKind, name: String, owners: Vec<ScaleOwner> },
    #[error(
        "{kind} {name} stays stopped, because {restore} may have half restored {claims}, which this restore does not write, so it would start \
         the workload on that data: restore all of it at once (rules for all hosts, all volumes in target.volumeMounts), put the earlier data \
         back (lifeboat stash rollback {argument} -n {namespace}), or accept the data as it is (lifeboat stash resume {argument} -n {namespace})",
        claims = joined(.claims), argument = .restore.argument(), namespace = .restore.namespace
    )]
    HalfRestored { kind: TargetKind, name: String, claims: BTreeSet<String>, restore: Box<RestoreName> },
    #[error(
        "StatefulSet {name} has spec.persistentVolumeClaimRetentionPolicy.whenScaled: Delete, so its PersistentVolumeClaims, with all data, \
         would be deleted when the restore scales it to zero; set whenScaled: Retain until the restore has ended"
    )]
    ClaimsDeletedWithScale { name: String },
    #[error(
        "the volumes of {kind} {name} are also used by {users}, which the restore does not stop; stop what runs them, and create \
         the restore again",
        users = listed(.users)
    )]
    OtherUsers { kind: TargetKind, name: String, users: Vec<VolumeUser> },
    #[error(
        "PersistentVolumeClaim {name} is in use by {users}; stop what runs them and create the restore again, or make that workload \
         the target: a restore stops and starts its own target",
        users = listed(.users)
    )]
    ClaimInUse { name: String, users: Vec<VolumeUser> },
    #[error(
        "DaemonSet {name} cannot be stopped, so data can only be written while its pods run; annotate the restore with \
         {annotation}: \"true\" if the application can handle that",
        annotation = RESTORE_RUNNING
    )]
    DaemonSet { name: String },
    #[error(
        "{volumes} of {kind} {name} exists only while its pod runs, so data can only be written into the running pod; annotate the \
         restore with {annotation}: \"true\" if the application can handle that",
        volumes = .volumes.join(" and "), annotation = RESTORE_RUNNING
    )]
    WithPodsOnly { kind: TargetKind, name: String, volumes: Vec<String> },
}

/// Decides how a restore may write into the volumes of its target: at once, after pods that are ending have ended, into running
/// pods, or while the workload is stopped. The workload is stopped only where the data can be written without its pods.
pub fn decide(facts: &InPlaceFacts) -> Result<InPlace, InPlaceError> {
    let (kind, name) = (facts.kind, facts.name.clone());
    let others = facts.users.iter().filter(|user| !facts.own_pods.contains(&user.pod_uid)).cloned();
    let (leaving, others): (Vec<VolumeUser>, Vec<VolumeUser>) = others.partition(|user| user.is_leaving);
    let Some(workload) = &facts.workload else {
        return match (others.is_empty(), leaving.is_empty()) {
            (true, true) => Ok(InPlace::AtOnce),
            (true, false) => {
                Ok(InPlace::Later { message: format!("waits until {} ended", listed(&leaving)) })
            }
            (false, _) => Err(InPlaceError::ClaimInUse { name, users: others }),
        };
    };
    let running_only = kind == TargetKind::DaemonSet || !facts.with_pods_only.is_empty();
    if running_only && !facts.settings.restore_running {
        let volumes = facts.with_pods_only.clone();
        return Err(match kind {
            TargetKind::DaemonSet => InPlaceError::DaemonSet { name },
            _ => InPlaceError::WithPodsOnly { kind, name, volumes },
        });
    }
    if running_only {
        return Ok(InPlace::IntoRunning);
    }
    if !others.is_empty() {
        return Err(InPlaceError::OtherUsers { kind, name, users: others });
    }
    stop(facts, workload)
}

fn stop(facts: &InPlaceFacts, workload: &Value) -> Result<InPlace, InPlaceError> {
    let now = replicas(workload);
    let before = facts.earlier.as_ref().map_or(0, |earlier| earlier.replicas);
    let is_stopped = now == 0 && facts.own_pods.is_empty();
    if !is_stopped && deletes_claims_when_scaled(workload) {
        return Err(InPlaceError::ClaimsDeletedWithScale { name: facts.name.clone() });
    }
    // A scale of zero is left alone by whatever sets the scale, or it was forced by an earlier restore.
    let owners = if is_stopped { Vec::new() } else { scale_owners(facts.kind, workload, &facts.autoscalers) };
    if !owners.is_empty() && !facts.settings.force_scale {
        return Err(InPlaceError::ScaleOwned { kind: facts.kind, name: facts.name.clone(), owners });
    }
    let earlier = facts.earlier.as_ref().filter(|earlier| now == 0 && earlier.step.may_have_written());
    if let Some(earlier) = earlier.filter(|_| !facts.not_covered.is_empty()) {
        let (name, claims) = (facts.name.clone(), facts.not_covered.clone());
        let restore = Box::new(earlier.restore.clone());
        return Err(InPlaceError::HalfRestored { kind: facts.kind, name, claims, restore });
    }
    // A workload that was started and stopped by hand since then has written: the earlier copy would lose that.
    let has_copy = is_stopped && !was_scaled_since(workload);
    let safety_of = earlier.filter(|_| has_copy).and_then(|earlier| earlier.safety_of.clone());
    Ok(InPlace::Stop(StopPlan {
        replicas: if now == 0 { before } else { now },
        safety_copy: facts.settings.safety_copy && !(safety_of.is_some() && facts.is_copied),
        safety_of,
        held_by: earlier.map(|earlier| earlier.restore.clone()),
        forced: owners,
    }))
}

/// Whether a StatefulSet's claims are deleted with its pods when it is scaled down.
pub fn deletes_claims_when_scaled(workload: &Value) -> bool {
    let policy = workload.pointer("/spec/persistentVolumeClaimRetentionPolicy/whenScaled");
    policy.and_then(Value::as_str) == Some("Delete")
}

fn joined(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn listed<T: ToString>(things: &[T]) -> String {
    let things: Vec<String> = things.iter().map(T::to_string).collect();
    things.join(", ")
}
