//! The controller of Backups: queue, pass, wait for operations, finalising. The phase of a Backup determines what is done
//! next, so a new leader continues where the previous one stopped. The pass of a Backup runs in a task of its own, outside
//! the reconciles, and is dropped at the end of the term; a server that shuts down waits for the post hooks of its passes.
//!
//! New, Queued -> [`queue`]; ReadyToStart, InProgress -> [`start`], [`attempt`], [`pass`]; Waiting… -> [`finish::operations`];
//! Finalizing… -> [`finish`]. A backup that fails, is cancelled or is deleted, in any phase -> [`undo`].

mod attempt;
mod counted;
mod finish;
pub(crate) mod journal;
mod left_behind;
mod pass;
mod plugin_lines;
mod problem;
mod queue;
mod start;
mod status;
mod storage;
#[cfg(test)]
mod tests;
mod undo;
mod volumes;
#[cfg(test)]
pub(crate) mod world;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::controller::Action;
use kube::{Api, ResourceExt};
use lifeboat_api::common::BackupUid;
use lifeboat_api::velero::{Backup, BackupPhase};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_control::{Known, LongWork, WorkEnd, locked, unreadable};
use lifeboat_plan::velero::backup::{ATTEMPT, CANCEL, attempt, is_cancelled, phase};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::dynamic;
use attempt::{AttemptEnd, Ready};
use finish::{deleted, operations};
pub(crate) use pass::{Commands, Report};
use start::Started;

/// How often a queued Backup is reconciled if no object has changed.
const QUEUE_LOOK: Duration = Duration::from_secs(30);

/// How often a Backup is reconciled while its pass runs.
const PASS_LOOK: Duration = Duration::from_secs(1);

/// What is kept between reconciles. `passes` is not part of the state, because passes hold the state.
struct Controller {
    state: Arc<State>,
    passes: LongWork,
}

/// What reconciles and passes share.
struct State {
    resource: ApiResource,
    backups: Option<Known>,
    /// Held while the queue is evaluated, so that only one reconcile does so at a time.
    queue: tokio::sync::Mutex<()>,
    /// The newest phase that this server wrote, by UID, because the watch may lag behind.
    written: Mutex<BTreeMap<BackupUid, BackupPhase>>,
    /// Since when storage is unreachable for a Backup that waits for it, by UID.
    problem: Mutex<BTreeMap<BackupUid, Timestamp>>,
    /// Backups whose pass has ended and which have not reached a final phase, by UID.
    ending: Mutex<BTreeMap<BackupUid, Backup>>,
    /// Results of passes that ended with an error or must be retried later, by UID. The next reconcile returns the result.
    passed: Mutex<BTreeMap<BackupUid, Result<Action, ApiError>>>,
    shutdown: CancellationToken,
}

impl State {
    fn new(shutdown: CancellationToken) -> Self {
        Self {
            resource: objects::resource_of::<Backup>(),
            backups: None,
            queue: tokio::sync::Mutex::default(),
            written: Mutex::default(),
            problem: Mutex::default(),
            ending: Mutex::default(),
            passed: Mutex::default(),
            shutdown,
        }
    }

    fn api(&self, context: &Context) -> Api<DynamicObject> {
        objects::namespaced(&context.client, &context.namespace, &self.resource)
    }
}

pub(crate) async fn run(context: &Context, shutdown: &CancellationToken) {
    let mut state = State::new(shutdown.clone());
    let watches = context.watches(&state.resource).until(shutdown);
    state.backups = Some(watches.known());
    let state = Arc::new(state);
    let controller = Arc::new(Controller::new(context, state.clone()));
    let journals = left_behind::left_behind(context, &state).await;
    tokio::join!(
        async {
            left_behind::end(context, &journals).await;
            left_behind::clear_snapshots(context, &state).await;
        },
        deleted::watch(context, &state),
        dynamic::drive("backup", watches, context.clone(), controller.clone(), reconcile),
    );
    // Passes end on their own when `shutdown` is cancelled, after the post hooks of their pods.
    controller.passes.ended().await;
}

impl Controller {
    fn new(context: &Context, state: Arc<State>) -> Self {
        Self { state, passes: LongWork::new(&context.core.metrics, "backup") }
    }

    /// Starts the pass of a Backup that this server has claimed.
    fn start_pass(&self, context: &Context, ready: Ready) {
        let (context, state, uid) = (context.clone(), self.state.clone(), ready.run.uid.clone());
        let backup = uid.clone();
        self.passes.start(uid.as_str(), |_| async move {
            let (passed, end) = match run_pass(&context, &state, ready).await {
                Ok(AttemptEnd { next, failed }) => (Ok(next), failed.map_or(WorkEnd::Done, WorkEnd::Failed)),
                Err(error) => {
                    let end = WorkEnd::Failed(error.category());
                    (Err(error), end)
                }
            };
            if !matches!(&passed, Ok(next) if *next == Action::await_change()) {
                locked(&state.passed).insert(backup, passed);
            }
            end
        });
    }
}

/// Runs a pass; then the next Backups of the queue may start.
async fn run_pass(context: &Context, state: &State, ready: Ready) -> Result<AttemptEnd, ApiError> {
    let ended = Box::pin(attempt::run(context, state, ready)).await?;
    queue::advance(context, state).await?;
    Ok(ended)
}

async fn reconcile(
    object: Arc<DynamicObject>,
    context: Context,
    controller: Arc<Controller>,
) -> Result<Action, ApiError> {
    let state = &controller.state;
    let uid = BackupUid::new(object.metadata.uid.as_deref().unwrap_or_default());
    // The pass itself checks whether its Backup is cancelled or deleted.
    if controller.passes.is_running(uid.as_str()) {
        return Ok(Action::requeue(PASS_LOOK));
    }
    if let Some(passed) = locked(&state.passed).remove(&uid) {
        return passed;
    }
    let shown = shown_phase(&object);
    if is_at_rest(&shown) {
        locked(&state.ending).remove(&uid);
    }
    if object.metadata.deletion_timestamp.is_some() || is_at_rest(&shown) {
        return Ok(Action::await_change());
    }
    if matches!(shown, BackupPhase::New | BackupPhase::Queued) {
        let annotation = |key: &str| object.annotations().get(key).map(String::as_str);
        if is_cancelled(annotation(CANCEL)) {
            let attempt = attempt(annotation(ATTEMPT));
            let run = status::Run { name: object.name_any(), uid, attempt };
            let message = format!("cancelled before it started: the Backup has the annotation {CANCEL}");
            status::write(&context, state, &run, &phase::failed(&message, context.now())).await?;
        }
        queue::advance(&context, state).await?;
        return Ok(Action::requeue(QUEUE_LOOK));
    }
    // The watch may lag behind the writes of this server: a pass must not start from an outdated object.
    let name = object.name_any();
    let fresh = state.api(&context).get_opt(&name).await.attempt(format!("read Backup {name}"))?;
    let Some(fresh) = fresh.filter(|fresh| fresh.uid() == object.uid()) else {
        return Ok(Action::await_change());
    };
    let backup = match objects::typed::<Backup>(&fresh) {
        Ok(backup) => backup,
        Err(error) => return report_unreadable(&context, state, &fresh, &error).await,
    };
    let next = Box::pin(go_on(&context, &controller, fresh, backup)).await?;
    queue::advance(&context, state).await?;
    Ok(next)
}

/// Continues a Backup that has left the queue, as its phase requires.
async fn go_on(
    context: &Context,
    controller: &Controller,
    object: DynamicObject,
    backup: Backup,
) -> Result<Action, ApiError> {
    let state = &controller.state;
    deleted::follow(state, &backup);
    match backup.phase() {
        BackupPhase::ReadyToStart | BackupPhase::InProgress => {
            match Box::pin(start::start(context, state, object, backup)).await? {
                Started::Ready(ready) => {
                    controller.start_pass(context, *ready);
                    Ok(Action::requeue(PASS_LOOK))
                }
                Started::Halted(next) => Ok(next),
            }
        }
        BackupPhase::WaitingForPluginOperations | BackupPhase::WaitingForPluginOperationsPartiallyFailed => {
            operations::follow(context, state, &backup).await
        }
        BackupPhase::Finalizing | BackupPhase::FinalizingPartiallyFailed => {
            finish::finalize(context, state, &backup).await
        }
        _ => Ok(Action::await_change()),
    }
}

fn shown_phase(object: &DynamicObject) -> BackupPhase {
    let phase = object.data.pointer("/status/phase").and_then(serde_json::Value::as_str).unwrap_or_default();
    if phase.is_empty() { BackupPhase::New } else { BackupPhase::from(phase) }
}

/// Whether this controller has nothing left to do in the phase.
fn is_at_rest(phase: &BackupPhase) -> bool {
    phase.is_terminal() || matches!(phase, BackupPhase::Deleting | BackupPhase::Other(_))
}

/// Ends a Backup that does not match its schema, because it is older than the schema; its status has the error.
async fn report_unreadable(
    context: &Context,
    state: &State,
    object: &DynamicObject,
    error: &serde_json::Error,
) -> Result<Action, ApiError> {
    let message = unreadable::message(error, "create the backup again");
    let patch = json!({"status": phase::refused(std::slice::from_ref(&message))});
    unreadable::report(context, &state.resource, object, patch, &message).await
}
