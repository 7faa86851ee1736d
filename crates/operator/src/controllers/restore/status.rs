//! What a Restore shows: the patches for its phases.

use kube::api::{DynamicObject, Patch, PatchParams};
use kube::runtime::controller::Action;
use kube::{Api, Resource};
use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::Restore;
use lifeboat_cluster::{ApiError, Attempt, MANAGER, objects};
use lifeboat_plan::restore::validate::excluded_resources;
use lifeboat_plan::time;
use lifeboat_web::Ending;
use serde_json::{Value, json};

use super::validate::Claim;
use crate::context::Context;

/// The spec as upstream completes it, and the phase that claims the work.
pub(super) fn begin(context: &Context, restore: &Restore, claim: &Claim) -> Value {
    let mut spec = completed(context, restore);
    spec["backupName"] = json!(claim.backup);
    if !claim.schedule.is_empty() {
        spec["scheduleName"] = json!(claim.schedule);
    }
    json!({"spec": spec, "status": {"phase": "InProgress", "startTimestamp": time::seconds(context.now())}})
}

fn completed(context: &Context, restore: &Restore) -> Value {
    let mut spec = json!({"excludedResources": excluded_resources(&restore.spec)});
    if GoDuration::set(restore.spec.item_operation_timeout).is_none() {
        spec["itemOperationTimeout"] = json!(GoDuration::from(context.settings.restore.operation_timeout));
    }
    spec
}

/// Ends a Restore that cannot run.
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
    context.metrics.velero().restore_started(&schedule);
    context.metrics.velero().restore_ended(&schedule, Ending::FailedValidation);
    context.events.warning(&restore.object_ref(&()), "FailedValidation", &note).await;
    Ok(Action::await_change())
}

/// Ends an object that is no Restore to us.
pub(super) async fn unreadable(
    context: &Context,
    api: &Api<DynamicObject>,
    object: &DynamicObject,
    error: &str,
) -> Result<Action, ApiError> {
    let phase = object.data.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    if !matches!(phase, "" | "New") {
        return Ok(Action::await_change());
    }
    let words =
        format!("the object cannot be read: {error}; correct it with `kubectl edit`, or make it anew");
    let patch = json!({"status": {"phase": "FailedValidation", "validationErrors": [words]}});
    match objects::merge(api, object, patch).await {
        Err(error) if error.is_invalid() => {
            let resource = objects::resource_of::<Restore>();
            Ok(context.refused.tell(&context.events, object, &resource, &words, &error).await)
        }
        written => written.map(|_| Action::await_change()),
    }
}

/// Merges into a Restore that this server runs, whoever else wrote to it.
pub(super) async fn write(api: &Api<DynamicObject>, name: &str, patch: &Value) -> Result<(), ApiError> {
    let options = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
    api.patch(name, &options, &Patch::Merge(patch)).await.attempt(format!("update Restore {name}")).map(drop)
}
