//! Finalizers of sessions. A restore that stopped a workload starts it, or leaves its record on the workload, before
//! its object is deleted. A session that ran the hook before a host or a batch runs the hook after it first, because
//! the object is the only record that a pod is quiesced.

use kube::ResourceExt;
use kube::api::DynamicObject;
use lifeboat_cluster::{ApiError, objects};
use lifeboat_control::Core;
use lifeboat_plan::stash::in_place::{HOOKS_FINALIZER, STANDSTILL_FINALIZER};
use lifeboat_plan::stash::state::SessionState;
use serde_json::json;

use super::kind::SessionKind;
use super::record::SessionRecord;

/// How often a change is tried if the object is changed in the meantime.
const TRIES: u32 = 5;

/// Why a finalizer keeps the object of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// A workload is stopped, or may be.
    Standstill,
    /// A hook is still due.
    Hooks,
}

impl Hold {
    const ALL: [Self; 2] = [Self::Standstill, Self::Hooks];

    fn name(self) -> &'static str {
        match self {
            Self::Standstill => STANDSTILL_FINALIZER,
            Self::Hooks => HOOKS_FINALIZER,
        }
    }
}

/// Whether a finalizer keeps the session.
pub(super) fn is_on(object: &DynamicObject) -> bool {
    Hold::ALL.into_iter().any(|hold| has(object, hold))
}

fn has(object: &DynamicObject, hold: Hold) -> bool {
    object.finalizers().iter().any(|name| name == hold.name())
}

/// Whether a workload is stopped, or may be.
pub(super) fn has_standstill(state: &SessionState) -> bool {
    let mut records = state.members.iter().filter_map(|member| member.standstill.as_ref());
    records.any(|record| !record.step.is_end())
}

/// Adds one.
pub(super) async fn hold(
    core: &Core,
    kind: SessionKind,
    record: &SessionRecord,
    hold: Hold,
) -> Result<(), ApiError> {
    set(core, kind, record, &[hold], true).await
}

/// Removes that of a standstill, unless a member of the restore still needs it.
pub(super) async fn release_standstill(
    core: &Core,
    kind: SessionKind,
    record: &SessionRecord,
) -> Result<(), ApiError> {
    if record.read(has_standstill).await {
        return Ok(());
    }
    set(core, kind, record, &[Hold::Standstill], false).await
}

/// Removes those of a session that has ended.
pub(super) async fn release(core: &Core, kind: SessionKind, record: &SessionRecord) -> Result<(), ApiError> {
    if record.read(has_standstill).await {
        return set(core, kind, record, &[Hold::Hooks], false).await;
    }
    set(core, kind, record, &Hold::ALL, false).await
}

/// Removes all of them from a session that is deleted, and whose end cannot be recorded.
pub(super) async fn release_deleted(
    core: &Core,
    kind: SessionKind,
    record: &SessionRecord,
) -> Result<(), ApiError> {
    match record.current().await? {
        Some(found) if found.metadata.deletion_timestamp.is_some() => {
            set(core, kind, record, &Hold::ALL, false).await
        }
        _ => Ok(()),
    }
}

async fn set(
    core: &Core,
    kind: SessionKind,
    record: &SessionRecord,
    holds: &[Hold],
    wanted: bool,
) -> Result<(), ApiError> {
    let api = objects::namespaced(&core.client, &record.namespace, &kind.resource());
    let mut tries = 0;
    loop {
        let found = record.current().await?;
        let differs = |found: &DynamicObject| holds.iter().any(|hold| has(found, *hold) != wanted);
        let Some(found) = found.filter(differs) else { return Ok(()) };
        // An object that is being deleted accepts no new finalizers.
        if wanted && found.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let mut names: Vec<String> = found.finalizers().to_vec();
        names.retain(|name| holds.iter().all(|hold| name != hold.name()));
        if wanted {
            names.extend(holds.iter().map(|hold| hold.name().to_owned()));
        }
        tries += 1;
        match objects::merge(&api, &found, json!({"metadata": {"finalizers": names}})).await {
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) if error.is_conflict() && tries < TRIES => {}
            merged => return merged.map(drop),
        }
    }
}
