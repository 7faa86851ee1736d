//! The controller of BackupConfigurations, BackupBatches and Restics: gather, validate, plan, status, and the schedule.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{DynamicObject, PostParams};
use kube::core::ApiResource;
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use lifeboat_api::common::Time;
use lifeboat_api::stash::{
    BackupBatchStatus, BackupConfigurationStatus, InvokerKind, InvokerPhase, ResticStatus,
};
use lifeboat_cluster::{ApiError, Attempt, MANAGER, objects};
use lifeboat_control::{Known, dynamic, unreadable};
use lifeboat_plan::stash::invoker::InvokerStatus;
use lifeboat_plan::stash::reservation::Claim;
use lifeboat_web::Metrics;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::gather::{GatheredNow, OPENING as OPENING_REPOSITORY, gather, nodes};
use super::invoker::Invoker;
use super::opening::RepositoryOpenings;
use super::schedule::{rest, schedule};
use crate::context::Context;
use crate::repository::reservations::ReservedId;
use crate::repository::{invoker_resource, release_gone};

/// The interval at which the controller checks again for a missing object, and for a repository that is being opened.
const MISSING: Duration = Duration::from_secs(15);
const OPENING: Duration = Duration::from_secs(5);
/// How often metrics and claims of invokers that no longer exist are removed.
const FORGET: Duration = Duration::from_mins(1);

struct State {
    kind: InvokerKind,
    resource: ApiResource,
    openings: RepositoryOpenings,
}

impl State {
    fn new(metrics: &Metrics, kind: InvokerKind, resource: ApiResource) -> Self {
        Self { kind, resource, openings: RepositoryOpenings::new(metrics) }
    }
}

/// Runs the controllers of all kinds until `shutdown` is cancelled.
pub(crate) async fn run(context: &Context, shutdown: &CancellationToken) {
    let restics = async {
        if context.settings.restics {
            run_kind(context, InvokerKind::Restic, "restic", shutdown).await;
        }
    };
    tokio::join!(
        run_kind(context, InvokerKind::BackupConfiguration, "backupconfiguration", shutdown),
        run_kind(context, InvokerKind::BackupBatch, "backupbatch", shutdown),
        restics,
    );
}

async fn run_kind(context: &Context, kind: InvokerKind, name: &'static str, shutdown: &CancellationToken) {
    let Some(resource) = invoker_resource(&kind) else { return };
    let watches = context
        .watches(&resource)
        .all_when(&context.policies.changed)
        .all_when(&context.invoker_doubts.changed)
        .until(shutdown);
    let there = watches.known();
    let state = Arc::new(State::new(&context.core.metrics, kind, resource));
    tokio::select! {
        () = dynamic::drive(name, watches, context.clone(), state.clone(), reconcile) => {}
        () = forget_gone(context, &state.kind, &there) => {}
    }
    state.openings.leave().await;
}

/// Removes metrics and claims of invokers that were deleted, because there is no reconcile for a deleted object.
async fn forget_gone(context: &Context, kind: &InvokerKind, there: &Known) {
    if !there.wait_until_ready().await {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(FORGET).await;
        let known: BTreeSet<(String, String)> = there
            .state()
            .iter()
            .map(|object| (object.namespace().unwrap_or_default(), object.name_any()))
            .collect();
        context.metrics.sessions.retain(|of, namespace, name| {
            of != kind.as_str() || known.contains(&(namespace.to_owned(), name.to_owned()))
        });
        release_left(context, kind, there).await;
    }
}

/// Removes the claims of invokers that were deleted, so that the next waiting invoker gets their repositories. Makes
/// no requests if there are none.
async fn release_left(context: &Context, kind: &InvokerKind, there: &Known) {
    let uids: BTreeSet<String> = there.state().iter().filter_map(|object| object.uid()).collect();
    let scope = context.served.scope();
    let is_left =
        |claim: &Claim| claim.kind == *kind && scope.includes(&claim.namespace) && !uids.contains(&claim.uid);
    let left = context.records.with_claims(is_left);
    for id in left.iter().filter_map(|name| ReservedId::of_config_map(name)) {
        if let Err(error) = release_gone(context, &id).await {
            tracing::warn!(error = error.chain(), "a reservation of a deleted object is left for now");
        }
    }
}

async fn reconcile(
    object: Arc<DynamicObject>,
    context: Context,
    state: Arc<State>,
) -> Result<Action, ApiError> {
    let namespace = object.namespace().unwrap_or_default();
    if object.metadata.deletion_timestamp.is_some()
        || !context.served.serves(&context.core, &namespace).await?
    {
        return Ok(Action::await_change());
    }
    let invoker = match Invoker::of(&state.kind, &object) {
        Ok(invoker) => invoker,
        Err(error) => {
            return Ok(unreadable::warn(&context.core, &state.resource, &object, error).await);
        }
    };
    if let Some(next) = at_rest(&context, &object, &invoker) {
        return Ok(next);
    }
    let invoker = invoker.with_workloads(&context).await?;
    let nodes = nodes(&context, &invoker).await?;
    let valid = invoker.valid(|_| nodes.clone());
    let gathering = gather(&context, &state.openings, &invoker, valid.as_ref().ok(), &nodes);
    let GatheredNow { gathered, is_opening } = Box::pin(gathering).await?;
    let was_ready = invoker.status.phase == Some(InvokerPhase::Ready);
    if is_opening && was_ready {
        // Slow storage does not stop a schedule: whether the storage answers is known soon.
        return Ok(Action::requeue(OPENING));
    }
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
    let mut next = Action::requeue(if is_opening { OPENING } else { MISSING });
    if is_ready && !was_ready {
        // The status is written before the first session is created, because a session requires that its invoker is
        // Ready.
        next = Action::requeue(Duration::from_millis(100));
    } else if let (true, Ok(valid)) = (is_ready, &valid) {
        next = schedule(&context, &invoker, valid).await?.record(&mut last_due);
    }
    if !is_seen(&object) || status != invoker.status || last_due != invoker.last_due {
        let warning = status.warning(&invoker.status, OPENING_REPOSITORY).filter(|_| !is_opening);
        write(&context, &state, &object, status, last_due).await?;
        tell(&context, &state, &object, warning).await;
    }
    context.invoker_doubts.settle(&invoker.uid);
    Ok(next)
}

/// Writes an event about an invoker that became unusable.
async fn tell(
    context: &Context,
    state: &State,
    object: &DynamicObject,
    warning: Option<(&'static str, String)>,
) {
    if let Some((reason, message)) = warning {
        context.core.events.warning(&object.object_ref(&state.resource), reason, &message).await;
    }
}

/// When an invoker is reconciled again that is Ready in its current generation and has no due session; None
/// for any other. Its Repository, Secret and target are read again when a session is due and after a session
/// failed, and each session checks them itself: hundreds of idle invokers cost no requests.
fn at_rest(context: &Context, object: &DynamicObject, invoker: &Invoker) -> Option<Action> {
    let is_ready = invoker.status.phase == Some(InvokerPhase::Ready);
    if !is_ready
        || context.invoker_doubts.has(&invoker.uid)
        || !is_seen(object)
        || context.policies.refusal(invoker.id.kind.as_str()).is_some()
    {
        return None;
    }
    let valid = invoker.valid(|_| Vec::new()).ok()?;
    rest(context, invoker, &valid)
}

/// Whether the status of an invoker is about its spec as it is now.
fn is_seen(object: &DynamicObject) -> bool {
    object.data.pointer("/status/observedGeneration").and_then(Value::as_i64) == object.metadata.generation
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
        InvokerKind::Restic => {
            let known = serde_json::from_value(object.data["status"].clone()).unwrap_or_default();
            serde_json::to_value(ResticStatus {
                observed_generation,
                phase,
                conditions,
                last_schedule_time,
                ..known
            })
        }
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

#[cfg(test)]
mod tests;
