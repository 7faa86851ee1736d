//! Schedule: makes a Backup at each due time. Decisions are `plan::schedule`'s; this carries them out: status (phase, skipped
//! runs) -> gather (the schedule's backups, only when a run is due) -> apply (create) -> status (the run is noted). At rest a
//! schedule costs a look at the clock every minute and no request.

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
use lifeboat_control::{Known, Written, locked};
use lifeboat_plan::schedule::Run;
use lifeboat_plan::velero::schedule::{Submission, backup_name, made, past, plan, submission};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::dynamic;

/// How soon a run is tried again that an unfinished backup holds up.
const HELD_UP: Duration = Duration::from_secs(15);

/// How soon a run is tried again that was refused: only a person can help, and each try makes an event.
const REFUSED: Duration = Duration::from_mins(5);

/// What outlives one reconcile.
struct State {
    resource: ApiResource,
    schedules: Known,
    /// The schedules that metrics show.
    shown: Mutex<BTreeSet<String>>,
}

impl State {
    /// Metrics show the schedules that there are, with zeros before their first backup.
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
    // Backups that nobody scheduled are shown under no name.
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
        Err(error) => return unreadable(object, context, resource, &error.to_string()).await,
    };
    let plan = plan(&schedule, now, context.settings.schedule_skip_immediately);
    if let Some(patch) = plan.patch {
        let was = object.data.pointer("/status/validationErrors").cloned();
        let written = write(object, context, resource, patch.clone()).await?;
        tell_errors(object, context, resource, was.as_ref(), &patch).await;
        // The change brings the next reconcile, with the version that the next write has to name.
        return Ok(written.unwrap_or_else(Action::await_change));
    }
    match plan.run {
        Run::Never => Ok(Action::await_change()),
        Run::Later(rest) => Ok(Action::requeue(rest)),
        Run::Due(due) => submit(object, &schedule, context, resource, due).await,
    }
}

/// Makes the run of that time, and notes it.
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
                let note = format!("backup {name} is due and was not made: {problem}");
                context.events.warning(&object.object_ref(resource), "NotMade", &note).await;
                return Ok(Action::requeue(REFUSED));
            }
            tracing::info!(schedule = object.name_any(), backup = name, "backup made");
        }
    }
    let written = write(object, context, resource, made(&past(schedule), due)).await?;
    Ok(written.unwrap_or_else(Action::await_change))
}

/// Merges, on the condition that nobody changed the object. A refusal (an object older than its schema) is told by an event.
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

/// An object that is older than its schema, or that someone wrote past it.
async fn unreadable(
    object: &DynamicObject,
    context: &Context,
    resource: &ApiResource,
    problem: &str,
) -> Result<Action, ApiError> {
    let errors = json!([format!("this schedule cannot be read: {problem}")]);
    if object.data.pointer("/status/validationErrors") == Some(&errors) {
        return Ok(Action::await_change());
    }
    let patch = json!({"status": {"phase": "FailedValidation", "validationErrors": errors}});
    let written = write(object, context, resource, patch.clone()).await?;
    tell_errors(object, context, resource, None, &patch).await;
    Ok(written.unwrap_or_else(Action::await_change))
}

/// An event for what is wrong, where it is news.
async fn tell_errors(
    object: &DynamicObject,
    context: &Context,
    resource: &ApiResource,
    was: Option<&Value>,
    patch: &Value,
) {
    let Some(errors) = patch.pointer("/status/validationErrors").filter(|errors| Some(*errors) != was) else {
        return;
    };
    let words: Vec<_> = errors.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !words.is_empty() {
        context.events.warning(&object.object_ref(resource), "FailedValidation", &words.join("; ")).await;
    }
}
