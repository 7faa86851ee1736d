//! Reads other sessions of a namespace: backups that have not ended, and the restores whose safety copies are still
//! needed.

use std::collections::BTreeSet;

use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::stash::in_place::ROLLBACK_OF;
use lifeboat_plan::stash::session::{OtherBackup, OtherTarget, SessionKey, TargetKey, TargetVolumes};

use crate::context::Context;
use crate::sessions::kind::SessionKind;

/// The backups of a namespace that have not ended.
pub(super) async fn backups(context: &Context, namespace: &str) -> Result<Vec<OtherBackup>, ApiError> {
    let mut found = Vec::new();
    for object in list(context, namespace, SessionKind::Backup).await? {
        let Ok(state) = SessionKind::Backup.read(&object) else { continue };
        if state.phase.has_ended() || context.abandoned.has(object.metadata.uid.as_deref()) {
            continue;
        }
        let targets = state.members.iter().map(|member| {
            let target = member.reference.as_ref().map(|reference| TargetKey::of(reference, namespace));
            let on = TargetVolumes::new(namespace, target, member.claims.clone());
            OtherTarget { on, phase: member.current_phase() }
        });
        let targets = targets.collect();
        found.push(OtherBackup { session: key(context, &object), phase: state.phase, targets });
    }
    Ok(found)
}

/// The UIDs of the restores whose safety copies are still needed: by restores that left a workload down, or may yet do so, and by rollbacks
/// that have not ended. The restore that made a copy may be deleted by then: trying again replaces it, and keeps its copy.
pub(super) async fn needed_copies(context: &Context, namespace: &str) -> Result<BTreeSet<String>, ApiError> {
    let mut needed = BTreeSet::new();
    for kind in [SessionKind::Restore, SessionKind::RestoreBatch] {
        for object in list(context, namespace, kind).await? {
            let Ok(state) = kind.read(&object) else { continue };
            let has_ended = state.has_ended();
            needed.extend(object.annotations().get(ROLLBACK_OF).filter(|_| !has_ended).cloned());
            let records = state.members.iter().filter_map(|member| member.standstill.as_ref());
            let offering = records.filter(|record| !has_ended || record.step.is_down());
            needed.extend(offering.filter_map(|record| Some(record.safety_of.as_ref()?.uid.clone())));
        }
    }
    Ok(needed)
}

async fn list(context: &Context, namespace: &str, kind: SessionKind) -> Result<Vec<DynamicObject>, ApiError> {
    let api = objects::namespaced(&context.core.client, namespace, &kind.resource());
    let listed = api.list(&ListParams::default()).await;
    match listed.attempt(format!("list objects of kind {} of namespace {namespace}", kind.as_str())) {
        // A cluster without this kind has no such sessions.
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        listed => Ok(listed?.items),
    }
}

fn key(context: &Context, object: &DynamicObject) -> SessionKey {
    SessionKey {
        created: object.creation_timestamp().map_or_else(|| context.core.now(), |time| time.0),
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
    }
}
