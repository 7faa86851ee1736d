//! The controller of BackupConfigurations and BackupBatches: gather, validate, plan, status, and the schedule.

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use kube::api::{DynamicObject, PostParams};
use kube::core::ApiResource;
use kube::runtime::controller::Action;
use lifeboat_api::common::Time;
use lifeboat_api::stash::{BackupBatchStatus, BackupConfigurationStatus, InvokerKind, InvokerPhase};
use lifeboat_cluster::{ApiError, Attempt, MANAGER, objects};
use lifeboat_control::dynamic;
use lifeboat_plan::stash::invoker::InvokerStatus;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::gather::gather;
use super::invoker::{Invoker, resource};
use super::schedule::{Scheduled, schedule};
use crate::context::Context;

/// How soon something that is missing is looked for again.
const MISSING: Duration = Duration::from_secs(15);

struct State {
    kind: InvokerKind,
    resource: ApiResource,
}

/// Runs the controllers of both kinds until `shutdown` is cancelled.
pub(crate) async fn run(context: &Context, shutdown: &CancellationToken) {
    tokio::join!(
        run_kind(context, InvokerKind::BackupConfiguration, "backupconfiguration", shutdown),
        run_kind(context, InvokerKind::BackupBatch, "backupbatch", shutdown),
    );
}

async fn run_kind(context: &Context, kind: InvokerKind, name: &'static str, shutdown: &CancellationToken) {
    let Some(resource) = resource(&kind) else { return };
    let watches = context.watches(&resource).until(shutdown);
    let state = Arc::new(State { kind, resource });
    dynamic::drive(name, watches, context.clone(), state, reconcile).await;
}

async fn reconcile(
    object: Arc<DynamicObject>,
    context: Context,
    state: Arc<State>,
) -> Result<Action, ApiError> {
    let namespace = object.namespace().unwrap_or_default();
    let is_deleted = object.metadata.deletion_timestamp.is_some();
    if is_deleted || !context.served.serves(&context.core, &namespace).await? {
        return Ok(Action::await_change());
    }
    let invoker = match Invoker::of(&state.kind, &object) {
        Ok(invoker) => invoker,
        Err(error) => {
            tracing::warn!(namespace, name = object.name_any(), %error, "an invoker cannot be read");
            return Ok(Action::await_change());
        }
    };
    let valid = invoker.valid(|_| Vec::new());
    let gathered = Box::pin(gather(&context, &invoker, valid.as_ref().ok())).await?;
    let status = InvokerStatus::of(
        &invoker.status,
        valid.as_ref().err(),
        &gathered,
        &invoker.targets(),
        invoker.is_batch(),
        context.core.now(),
    );
    let is_ready = status.phase == Some(InvokerPhase::Ready);
    let mut last_due = invoker.last_due;
    let mut next = Action::requeue(MISSING);
    if let (true, Ok(valid)) = (is_ready, &valid) {
        match schedule(&context, &invoker, valid).await? {
            Scheduled::Later(action) => next = action,
            Scheduled::Made(due) => {
                last_due = Some(due);
                next = Action::requeue(Duration::from_secs(1));
            }
        }
    }
    if status != invoker.status || last_due != invoker.last_due {
        write(&context, &state, &object, status, last_due).await?;
    }
    Ok(next)
}

async fn write(
    context: &Context,
    state: &State,
    object: &DynamicObject,
    status: InvokerStatus,
    last_due: Option<jiff::Timestamp>,
) -> Result<(), ApiError> {
    let last_schedule_time = last_due.map(Time);
    let observed_generation = object.metadata.generation;
    let InvokerStatus { phase, conditions, members } = status;
    let status = match state.kind {
        InvokerKind::BackupBatch => serde_json::to_value(BackupBatchStatus {
            observed_generation,
            conditions,
            member_conditions: members,
            phase,
            last_schedule_time,
        }),
        _ => serde_json::to_value(BackupConfigurationStatus {
            observed_generation,
            conditions,
            phase,
            last_schedule_time,
        }),
    };
    let mut wanted = object.clone();
    wanted.data["status"] = status.unwrap_or(Value::Null);
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let api = objects::namespaced(&context.core.client, &namespace, &state.resource);
    let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
    match api.replace_status(&name, &params, &wanted).await {
        Err(kube::Error::Api(failed)) if failed.code == 404 => Ok(()),
        written => written.attempt(format!("update the status of {} {name}", state.kind)).map(drop),
    }
}
