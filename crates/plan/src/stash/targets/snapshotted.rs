//! Targets of driver VolumeSnapshotter: each claim of a target is a host of its own, by the claim's name as upstream has it. A claim of a
//! restore is one that its templates make.

use std::collections::BTreeSet;

use lifeboat_api::stash::{BackupTarget, RestoreTarget};
use serde_json::Value;

use super::claims::{
    NewClaim, TemplateError, few_enough, of_templates, ordinal_of, stateful_name, templates, volumes,
};
use super::pods::{has_ended, pod_template, pods_of, standing};
use super::snapshot_class::{SnapshotClassError, class_for};
use super::volumes::{driver_of, is_with_pods_only, kind_of};
use super::{
    Host, HostPod, HostSource, HostVolume, Note, TargetError, TargetFacts, TargetPlan, VolumeAccess,
};
use crate::json::text;
use crate::stash::hosts::{HostName, HostOf, TargetKind, ordinals, replicas, template_parts};
use crate::transfer::directory::claim_of;

/// The most claims of one target: a status has an entry for each.
const MOST_CLAIMS: usize = 1000;

/// Why a target, or one claim of it, gets no VolumeSnapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    #[error(
        "{target} has no PersistentVolumeClaims, and driver VolumeSnapshotter keeps nothing else; use driver Restic"
    )]
    NoClaims { target: String },
    #[error("{target} has more than {MOST_CLAIMS} claims; set target.replicas to a smaller number")]
    TooMany { target: String },
    #[error("PersistentVolumeClaim {claim} of {target} does not exist; its events say why it was not made")]
    NoClaim { target: String, claim: String },
    #[error("PersistentVolumeClaim {claim} has no volume (phase {phase}); its events say why")]
    NotBound { claim: String, phase: String },
    #[error(
        "the volume of PersistentVolumeClaim {claim} is of no CSI driver, so there are no snapshots of it; use driver Restic"
    )]
    NoDriver { claim: String },
    #[error("PersistentVolumeClaim {claim}: {source}")]
    Class { claim: String, source: SnapshotClassError },
}

/// What driver VolumeSnapshotter takes of a target. `classes`: the cluster's VolumeSnapshotClasses. Paths and mounts of the spec do not
/// count: a snapshot has all of a volume.
pub fn snapshot_plan(
    facts: &TargetFacts,
    target: &BackupTarget,
    classes: &[Value],
) -> Result<TargetPlan, TargetError> {
    let TargetFacts { kind, name, namespace, .. } = facts;
    if *kind == TargetKind::AppBinding {
        return Err(TargetError::NeedsTask { kind: *kind, name: name.clone() });
    }
    let Some(object) = &facts.object else {
        let (namespace, name) = (namespace.clone(), name.clone());
        return Err(TargetError::NoTarget { kind: *kind, namespace, name });
    };
    let claims = claims(facts, object, target.replicas)?;
    if claims.is_empty() {
        return Err(SnapshotError::NoClaims { target: facts.title() }.into());
    }
    let class = target.snapshot_class_name.as_deref().filter(|class| !class.is_empty());
    let host = |claim: String| {
        let source = source(facts, object, &claim, classes, class).map_err(TargetError::from);
        Host { name: HostName(claim), of: HostOf::Whole, source }
    };
    Ok(TargetPlan {
        hosts: claims.into_iter().map(host).collect(),
        notes: without_snapshot(facts, object).into_iter().collect(),
    })
}

/// The names of a target's claims: those of its pod template; of a StatefulSet also those of its ordinals.
fn claims(
    facts: &TargetFacts,
    object: &Value,
    wanted: Option<i32>,
) -> Result<BTreeSet<String>, SnapshotError> {
    if facts.kind == TargetKind::Claim {
        return Ok(BTreeSet::from([facts.name.clone()]));
    }
    let own: Vec<&str> = if facts.kind == TargetKind::StatefulSet {
        templates(object).map(|template| text(template, "/metadata/name")).collect()
    } else {
        Vec::new()
    };
    // A claim template replaces a volume of its name.
    let shared = pod_template(object).map(volumes).unwrap_or_default().iter();
    let shared = shared.filter(|volume| !own.contains(&text(volume, "/name")));
    let shared = shared.map(|volume| text(volume, "/persistentVolumeClaim/claimName").to_owned());
    let mut names: BTreeSet<String> = shared.filter(|claim| !claim.is_empty()).collect();
    if own.is_empty() {
        return Ok(names);
    }
    let wanted = wanted.and_then(|wanted| u32::try_from(wanted).ok());
    let count = wanted.unwrap_or_else(|| replicas(object));
    if count == 0 {
        let is_own =
            |claim: &&String| own.iter().any(|template| ordinal_of(object, template, claim).is_some());
        names.extend(facts.claims.keys().filter(is_own).cloned());
    }
    let of_ordinals =
        ordinals(object, count).flat_map(|ordinal| own.iter().map(move |template| (*template, ordinal)));
    let of_ordinals = of_ordinals.take(MOST_CLAIMS + 1);
    names.extend(of_ordinals.map(|(template, ordinal)| stateful_name(object, template, ordinal)));
    if names.len() > MOST_CLAIMS {
        return Err(SnapshotError::TooMany { target: facts.title() });
    }
    Ok(names)
}

/// The claim with its class, and the pod that uses it, for hooks.
fn source(
    facts: &TargetFacts,
    object: &Value,
    claim: &str,
    classes: &[Value],
    class: Option<&str>,
) -> Result<HostSource, SnapshotError> {
    let name = claim.to_owned();
    let Some(known) = facts.claims.get(claim) else {
        return Err(SnapshotError::NoClaim { target: facts.title(), claim: name });
    };
    let phase = text(&known.claim, "/status/phase");
    let Some(volume) = known.volume.as_ref().filter(|_| phase != "Lost") else {
        let phase = if phase.is_empty() { "unknown" } else { phase }.to_owned();
        return Err(SnapshotError::NotBound { claim: name, phase });
    };
    let Some(driver) = driver_of(volume) else { return Err(SnapshotError::NoDriver { claim: name }) };
    let class = class_for(classes, driver, class);
    let class = class.map_err(|source| SnapshotError::Class { claim: name.clone(), source })?;
    let block = text(&known.claim, "/spec/volumeMode") == "Block";
    let access = VolumeAccess::Snapshot { claim: name.clone(), class, block };
    Ok(HostSource {
        pod: user(facts, object, claim),
        volumes: vec![HostVolume { name, access }],
        ..HostSource::default()
    })
}

/// The Ready pod of the target that uses a claim.
fn user(facts: &TargetFacts, object: &Value, claim: &str) -> Option<HostPod> {
    let pods: Vec<&Value> = if facts.kind == TargetKind::Claim {
        facts.pods.iter().collect()
    } else {
        pods_of(object, &facts.between, &facts.pods)
    };
    let has_claim = |pod: &&Value| {
        let name = text(pod, "/metadata/name");
        !has_ended(pod) && volumes(pod).iter().any(|volume| claim_of(name, volume).as_deref() == Some(claim))
    };
    let users: Vec<&Value> = pods.into_iter().filter(has_claim).collect();
    standing(&facts.title(), &users).ok().map(HostPod::of)
}

/// The volumes of the target's pods that have data and no claim which outlives the pod.
fn without_snapshot(facts: &TargetFacts, object: &Value) -> Option<Note> {
    let template = pod_template(object).filter(|_| facts.kind.is_workload())?;
    let left = volumes(template).iter().filter(|volume| is_with_pods_only(volume));
    let left: Vec<String> =
        left.map(|volume| format!("{} ({})", text(volume, "/name"), kind_of(volume))).collect();
    (!left.is_empty()).then_some(Note::WithoutSnapshot { volumes: left })
}

/// The claims of a restore's templates, each with the ordinal that it is for.
pub fn template_claims(
    target: &RestoreTarget,
    namespace: &str,
) -> Result<Vec<(u32, NewClaim)>, TemplateError> {
    few_enough(target)?;
    let mut claims = Vec::new();
    for of in template_parts(target) {
        let ordinal = if let HostOf::Ordinal(ordinal) = of { ordinal } else { 0 };
        let made = of_templates(target, namespace, &of)?;
        claims.extend(made.into_iter().map(|made| (ordinal, made.claim)));
    }
    Ok(claims)
}
