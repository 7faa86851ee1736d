//! The finalizer of a restore that has stopped a workload: a restore that is deleted then starts the workload first, or leaves its record
//! there.

use kube::ResourceExt;
use kube::api::DynamicObject;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_control::Core;
use lifeboat_plan::stash::in_place::{STANDSTILL_FINALIZER, Step};
use lifeboat_plan::stash::state::SessionState;
use serde_json::json;

use crate::sessions::kind::SessionKind;
use crate::sessions::record::SessionRecord;

/// How often a change is tried that meets other changes of the object.
const TRIES: u32 = 5;

/// Whether a restore has it.
pub(super) fn is_on(object: &DynamicObject) -> bool {
    object.finalizers().iter().any(|name| name == STANDSTILL_FINALIZER)
}

/// Whether a workload is stopped, or may be.
pub(super) fn is_needed(state: &SessionState) -> bool {
    let records = state.members.iter().filter_map(|member| member.standstill.as_ref());
    let mut open = records.filter(|record| !matches!(record.step, Step::Started | Step::HeldDown));
    open.next().is_some()
}

/// Adds it.
pub(super) async fn hold(core: &Core, kind: SessionKind, record: &SessionRecord) -> Result<(), ApiError> {
    set(core, kind, record, true).await
}

/// Removes it, unless a member of the restore still needs it.
pub(super) async fn release(core: &Core, kind: SessionKind, record: &SessionRecord) -> Result<(), ApiError> {
    if record.read(is_needed).await {
        return Ok(());
    }
    set(core, kind, record, false).await
}

async fn set(core: &Core, kind: SessionKind, record: &SessionRecord, wanted: bool) -> Result<(), ApiError> {
    let api = objects::namespaced(&core.client, &record.namespace, &kind.resource());
    let mut tries = 0;
    loop {
        let attempt = format!("read {} {}", kind.as_str(), record.name);
        let found = api.get_opt(&record.name).await.attempt(attempt)?;
        let found = found.filter(|found| found.uid().as_deref() == Some(record.uid.as_str()));
        let Some(found) = found.filter(|found| is_on(found) != wanted) else { return Ok(()) };
        // One that is being deleted takes no new finalizers.
        if wanted && found.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let mut names: Vec<String> = found.finalizers().to_vec();
        names.retain(|name| name != STANDSTILL_FINALIZER);
        if wanted {
            names.push(STANDSTILL_FINALIZER.to_owned());
        }
        tries += 1;
        match objects::merge(&api, &found, json!({"metadata": {"finalizers": names}})).await {
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) if error.is_conflict() && tries < TRIES => {}
            merged => return merged.map(drop),
        }
    }
}
