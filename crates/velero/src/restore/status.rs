//! The patches of a Restore's status for its phases.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DynamicObject;
use kube::runtime::controller::Action;
use kube::{Api, Resource, ResourceExt};
use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::{Restore, RestorePhase};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_control::unreadable;
use lifeboat_plan::items::waits::WAITING;
use lifeboat_plan::time;
use lifeboat_plan::velero::backup::{ATTEMPT, attempt};
use lifeboat_plan::velero::restore::validate::excluded_resources;
use serde_json::{Value, json};

use super::validate::Claim;
use crate::context::Context;
use crate::metrics::Ending;

/// How many runs of the items are tried: one that was interrupted this often would be interrupted again. Later stages
/// only wait, and may be continued any number of times.
const MOST_ATTEMPTS: u64 = 5;

/// How often a write with a conflict is repeated at once.
const MOST_CONFLICTS: usize = 5;

/// The spec with upstream's defaults, and the phase that claims the work.
pub(super) fn begin(context: &Context, restore: &Restore, claim: &Claim) -> Value {
    let mut spec = completed(context, restore);
    spec["backupName"] = json!(claim.backup);
    if !claim.schedule.is_empty() {
        spec["scheduleName"] = json!(claim.schedule);
    }
    json!({"metadata": {"annotations": {ATTEMPT: "1"}}, "spec": spec,
        "status": {"phase": "InProgress", "startTimestamp": time::seconds(context.now())}})
}

/// Continues a Restore that another server started: with the next attempt, or with its end if there were too many.
pub(super) fn go_on(context: &Context, restore: &Restore) -> Value {
    let next = attempt_of(restore.meta()) + 1;
    if next > MOST_ATTEMPTS && *restore.phase() == RestorePhase::InProgress {
        let message = format!(
            "the server was interrupted {MOST_ATTEMPTS} times during this restore; the objects that it created stay (label velero.io/restore-name)"
        );
        return json!({"status": {"phase": "Failed", "failureReason": message,
            "completionTimestamp": time::seconds(context.now())}});
    }
    json!({"metadata": {"annotations": {ATTEMPT: next.to_string()}}})
}

/// Counts and reports a Restore that was interrupted too often.
pub(super) async fn gave_up(context: &Context, restore: &Restore) {
    let schedule = restore.spec.schedule_name.clone().unwrap_or_default();
    context.metrics.restore_ended(&schedule, Ending::Failed);
    context.events.warning(&restore.object_ref(&()), "NotCompleted", "interrupted too often").await;
}

fn attempt_of(metadata: &ObjectMeta) -> u64 {
    attempt(metadata.annotations.as_ref().and_then(|all| all.get(ATTEMPT)).map(String::as_str))
}

/// Whether no server has worked on it before.
pub(super) fn is_first_attempt(restore: &Restore) -> bool {
    attempt_of(restore.meta()) <= 1
}

/// Removes the list of waiting items from a Restore in a patch.
pub(super) fn without_waits(mut patch: Value) -> Value {
    patch["metadata"]["annotations"][WAITING] = Value::Null;
    patch
}

fn completed(context: &Context, restore: &Restore) -> Value {
    let mut spec = json!({"excludedResources": excluded_resources(&restore.spec)});
    if GoDuration::set(restore.spec.item_operation_timeout).is_none() {
        spec["itemOperationTimeout"] = json!(GoDuration::from(context.settings.restore.operation_timeout));
    }
    spec
}

/// Ends a Restore that failed validation.
pub(super) async fn refuse(
    context: &Context,
    api: &Api<DynamicObject>,
    object: &DynamicObject,
    restore: &Restore,
    problems: Vec<String>,
) -> Result<Action, ApiError> {
    let note = problems.join("; ");
    let status = json!({"phase": "FailedValidation", "validationErrors": problems});
    let patch = json!({"spec": completed(context, restore), "status": status});
    objects::merge(api, object, patch).await?;
    let schedule = restore.spec.schedule_name.clone().unwrap_or_default();
    context.metrics.restore_started(&schedule);
    context.metrics.restore_ended(&schedule, Ending::FailedValidation);
    context.events.warning(&restore.object_ref(&()), "FailedValidation", &note).await;
    Ok(Action::await_change())
}

/// Ends an object that cannot be read as a Restore.
pub(super) async fn report_unreadable(
    context: &Context,
    object: &DynamicObject,
    error: &serde_json::Error,
) -> Result<Action, ApiError> {
    let phase = object.data.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    if !matches!(phase, "" | "New") {
        return Ok(Action::await_change());
    }
    let message = unreadable::message(error, unreadable::EDIT);
    let patch = json!({"status": {"phase": "FailedValidation", "validationErrors": [message]}});
    unreadable::report(context, &objects::resource_of::<Restore>(), object, patch, &message).await
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    Done,
    /// The object is gone, or another server continues it: nothing was written.
    NotOurs,
}

/// Merges into a Restore that this server runs, whatever other clients wrote to it, as long as it is the same object
/// in the same attempt.
pub(super) async fn write(
    api: &Api<DynamicObject>,
    restore: &Restore,
    patch: &Value,
) -> Result<Written, ApiError> {
    for _ in 0..MOST_CONFLICTS {
        let Some(object) = read(api, restore).await? else { return Ok(Written::NotOurs) };
        match objects::merge(api, &object, patch.clone()).await {
            Ok(_) => return Ok(Written::Done),
            Err(error) if error.is_conflict() => {}
            Err(error) if error.is_not_found() => return Ok(Written::NotOurs),
            Err(error) => return Err(error),
        }
    }
    let Some(object) = read(api, restore).await? else { return Ok(Written::NotOurs) };
    objects::merge(api, &object, patch.clone()).await.map(|_| Written::Done)
}

/// The object as it is now; None if it is gone or belongs to another attempt.
pub(super) async fn read(
    api: &Api<DynamicObject>,
    restore: &Restore,
) -> Result<Option<DynamicObject>, ApiError> {
    let name = restore.name_any();
    let found = api.get_opt(&name).await.attempt(format!("read Restore {name}"))?;
    let (uid, this) = (restore.uid(), attempt_of(restore.meta()));
    Ok(found.filter(|object| object.uid() == uid && attempt_of(&object.metadata) == this))
}
