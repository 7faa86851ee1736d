//! Schedule: creates a Backup at each due time. The decisions are in `plan::schedule`; this carries them out: status
//! (phase, skipped runs) -> gather (the schedule's backups, only when a run is due) -> apply (create) -> status
//! (record the run). While no run is due, a schedule costs one look at the clock per minute and no request.

mod apply;
mod gather;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use lifeboat_api::velero::Schedule;
use lifeboat_cluster::{ApiError, objects};
use lifeboat_control::{Known, Written, locked, unreadable};
use lifeboat_plan::schedule::Run;
use lifeboat_plan::velero::schedule::{Submission, backup_name, made, past, plan, submission};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::dynamic;

/// When a run that an unfinished backup blocks is tried again.
const HELD_UP: Duration = Duration::from_secs(15);

/// When a run that was refused is tried again: the cause has to be fixed first, and each try writes an event.
const REFUSED: Duration = Duration::from_mins(5);

/// What outlives one reconcile.
struct State {
    resource: ApiResource,
    schedules: Known,
    /// The schedules that are in the metrics.
    shown: Mutex<BTreeSet<String>>,
}

impl State {
    /// Adds a schedule to the metrics, with zeros before its first backup, and removes those that are gone.
    fn show(&self, context: &Context, name: &str) {
        let mut shown = locked(&self.shown);
        if shown.insert(name.to_owned()) {
            context.metrics.init_schedule(name);
        }
        let there: BTreeSet<String> =
            self.schedules.state().iter().map(|schedule| schedule.name_any()).collect();
        shown.retain(|known| {
            let stays = known == name || there.contains(known);
            if !stays {
                context.metrics.forget_schedule(known);
            }
            stays
        });
    }
}

pub(crate) async fn run(context: &Context, shutdown: &CancellationToken) {
    let resource = objects::resource_of::<Schedule>();
    let watches = context.watches(&resource).until(shutdown);
    let state = State { schedules: watches.known(), resource, shown: Mutex::default() };
    // Backups without a schedule have an empty label.
    context.metrics.init_schedule("");
    dynamic::drive("schedule", watches, context.clone(), Arc::new(state), reconcile).await;
}

async fn reconcile(
    object: Arc<DynamicObject>,
    context: Context,
    state: Arc<State>,
) -> Result<Action, ApiError> {
    let now = context.now();
    state.show(&context, &object.name_any());
    work(&object, &context, &state.resource, now).await
}

async fn work(
    object: &DynamicObject,
    context: &Context,
    resource: &ApiResource,
    now: Timestamp,
) -> Result<Action, ApiError> {
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let schedule = match objects::typed::<Schedule>(object) {
        Ok(schedule) => schedule,
        Err(error) => return report_unreadable(object, context, resource, &error).await,
    };
    let plan = plan(&schedule, now, context.settings.schedule_skip_immediately);
    if let Some(patch) = plan.patch {
        let was = object.data.pointer("/status/validationErrors").cloned();
        let written = write(object, context, resource, patch.clone()).await?;
        report_errors(object, context, resource, was.as_ref(), &patch).await;
        // The change triggers the next reconcile, with the resource version that the next write needs.
        return Ok(written.unwrap_or_else(Action::await_change));
    }
    match plan.run {
        Run::Never => Ok(Action::await_change()),
        Run::Later(rest) => Ok(Action::requeue(rest)),
        Run::Due(due) => submit(object, &schedule, context, resource, due).await,
    }
}

/// Creates the Backup of a due run, and records the run.
async fn submit(
    object: &DynamicObject,
    schedule: &Schedule,
    context: &Context,
    resource: &ApiResource,
    due: Timestamp,
) -> Result<Action, ApiError> {
    let name = backup_name(&object.name_any(), due);
    let backups = gather::backups(context, &object.name_any()).await?;
    match submission(&name, &backups) {
        Submission::Wait(unfinished) => {
            tracing::debug!(
                schedule = object.name_any(),
                backup = name,
                unfinished,
                "due, but one is not finished"
            );
            return Ok(Action::requeue(HELD_UP));
        }
        Submission::IsThere => {}
        Submission::Create => {
            if let Some(problem) = apply::create(context, schedule, &name).await? {
                let note = format!("backup {name} is due and was not created: {problem}");
                context.events.warning(&object.object_ref(resource), "NotMade", &note).await;
                return Ok(Action::requeue(REFUSED));
            }
            tracing::info!(schedule = object.name_any(), backup = name, "backup created");
        }
    }
    let written = write(object, context, resource, made(&past(schedule), due)).await?;
    Ok(written.unwrap_or_else(Action::await_change))
}

/// Merges a patch, if the object has not changed. If the API server rejects it (the object does not match its
/// schema), an event reports that.
async fn write(
    object: &DynamicObject,
    context: &Context,
    resource: &ApiResource,
    patch: Value,
) -> Result<Option<Action>, ApiError> {
    let message = "the state of this schedule cannot be written into it";
    Ok(match context.write(resource, object, patch, message).await? {
        Written::Changed(_) | Written::Gone => None,
        Written::Refused(next) => Some(next),
    })
}

/// An object that does not match its schema.
async fn report_unreadable(
    object: &DynamicObject,
    context: &Context,
    resource: &ApiResource,
    error: &serde_json::Error,
) -> Result<Action, ApiError> {
    let message = unreadable::message(error, unreadable::EDIT);
    let errors = json!([message]);
    if object.data.pointer("/status/validationErrors") == Some(&errors) {
        return Ok(Action::await_change());
    }
    let patch = json!({"status": {"phase": "FailedValidation", "validationErrors": errors}});
    let next = unreadable::report(context, resource, object, patch.clone(), &message).await?;
    report_errors(object, context, resource, None, &patch).await;
    Ok(next)
}

/// Writes an event for errors that were not reported yet.
async fn report_errors(
    object: &DynamicObject,
    context: &Context,
    resource: &ApiResource,
    was: Option<&Value>,
    patch: &Value,
) {
    let Some(errors) = patch.pointer("/status/validationErrors").filter(|errors| Some(*errors) != was) else {
        return;
    };
    let messages: Vec<_> = errors.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !messages.is_empty() {
        context.events.warning(&object.object_ref(resource), "FailedValidation", &messages.join("; ")).await;
    }
}
