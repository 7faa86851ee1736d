//! Sets the record of a restore on the claims that it is about to overwrite, and removes it once a restore has
//! succeeded or a user allowed backups. [`lifeboat_plan::stash::session`] decides what follows from the record.

use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use lifeboat_cluster::{ApiError, Attempt, MANAGER, objects};
use lifeboat_control::Core;
use lifeboat_plan::stash::hosts::TargetKind;
use lifeboat_plan::stash::in_place::{RestoreName, UNFINISHED, unfinished, unfinished_annotation};
use lifeboat_plan::stash::session::{TargetKey, TargetVolumes};
use lifeboat_plan::stash::state::SessionState;
use serde_json::{Value, json};

use super::volumes::Claims;
use crate::target::{self, TargetName};

/// Records the restore on the claims that it writes to, or on its target if it writes to no claims. The record of an
/// earlier restore stays.
pub(super) async fn mark(
    core: &Core,
    written: &TargetVolumes,
    target: Option<(TargetKind, &TargetKey)>,
    restore: &RestoreName,
) -> Result<(), ApiError> {
    let annotation = Value::String(unfinished_annotation(restore));
    let known = Claims::read(core, &written.namespace).await?;
    let has_record = |claim: &str| known.unfinished().any(|(name, _)| name == claim);
    for claim in written.claims.iter().filter(|claim| !has_record(claim)) {
        annotate(core, TargetKind::Claim, (&written.namespace, claim), &annotation).await?;
    }
    match target {
        Some((kind, key)) if written.claims.is_empty() && of_target(core, kind, key).await?.is_none() => {
            annotate(core, kind, (&key.namespace, &key.name), &annotation).await
        }
        _ => Ok(()),
    }
}

/// Removes the records from these claims and from the target, whichever restore they name, because the data is
/// complete again.
pub(super) async fn clear(
    core: &Core,
    on: &TargetVolumes,
    target: Option<(TargetKind, &TargetKey)>,
) -> Result<(), ApiError> {
    remove(core, on, target, |_| true).await
}

/// Removes the records of one restore, which wrote nothing.
pub(super) async fn withdraw(
    core: &Core,
    on: &TargetVolumes,
    target: Option<(TargetKind, &TargetKey)>,
    uid: &str,
) -> Result<(), ApiError> {
    remove(core, on, target, |restore| restore.uid == uid).await
}

/// Removes all records from the claims of a restore, because a user allowed backups of them. `state`: that of the
/// restore.
pub(super) async fn resume(core: &Core, namespace: &str, state: &SessionState) -> Result<(), ApiError> {
    for member in &state.members {
        let target = member.reference.as_ref();
        let target =
            target.and_then(|target| Some((TargetKind::of(target).ok()?, TargetKey::of(target, namespace))));
        let on = TargetVolumes::new(namespace, None, member.claims.clone());
        clear(core, &on, target.as_ref().map(|(kind, key)| (*kind, key))).await?;
    }
    Ok(())
}

async fn remove(
    core: &Core,
    on: &TargetVolumes,
    target: Option<(TargetKind, &TargetKey)>,
    is_wanted: impl Fn(&RestoreName) -> bool,
) -> Result<(), ApiError> {
    if !on.claims.is_empty() {
        let known = Claims::read(core, &on.namespace).await?;
        let wanted =
            known.unfinished().filter(|(claim, restore)| on.claims.contains(*claim) && is_wanted(restore));
        for (claim, _) in wanted {
            annotate(core, TargetKind::Claim, (&on.namespace, claim), &Value::Null).await?;
        }
    }
    let Some((kind, key)) = target else { return Ok(()) };
    if of_target(core, kind, key).await?.is_some_and(|record| is_wanted(&record)) {
        annotate(core, kind, (&key.namespace, &key.name), &Value::Null).await?;
    }
    Ok(())
}

/// The record on a target itself.
async fn of_target(core: &Core, kind: TargetKind, key: &TargetKey) -> Result<Option<RestoreName>, ApiError> {
    let name = TargetName { kind, namespace: &key.namespace, name: &key.name };
    let found = target::workload(core, name).await?;
    Ok(found
        .and_then(|found| unfinished(found["metadata"]["annotations"][UNFINISHED].as_str(), &key.namespace)))
}

/// Sets or removes the annotation. An object that no longer exists needs no record, because its data no longer exists
/// either.
async fn annotate(
    core: &Core,
    kind: TargetKind,
    (namespace, name): (&str, &str),
    annotation: &Value,
) -> Result<(), ApiError> {
    let api: Api<DynamicObject> = objects::namespaced(&core.client, namespace, &target::resource(kind));
    let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
    let patch = json!({"metadata": {"annotations": {UNFINISHED: annotation}}});
    let attempt = format!("annotate {kind} {namespace}/{name}");
    match api.patch(name, &params, &Patch::Merge(&patch)).await.attempt(attempt) {
        Err(error) if error.is_not_found() => Ok(()),
        patched => patched.map(drop),
    }
}
