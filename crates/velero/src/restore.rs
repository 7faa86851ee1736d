//! The controller of Restores: validates them and runs several in parallel. A run belongs to a term of leadership: at its
//! end, runs are dropped, and the next leader continues them. Objects that a run created are recognised by their label.
//! gather -> validate -> (claim the phase) -> run -> status.

mod after;
mod delete;
mod error;
mod execute;
mod gather;
pub(crate) mod handler;
mod item_stage;
mod prepare;
mod preview;
mod status;
#[cfg(test)]
mod tests;
mod validate;
mod volume_data;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::controller::Action;
use kube::{Api, ResourceExt};
use lifeboat_api::velero::names::RESTORE_FINALIZER;
use lifeboat_api::velero::{Restore, RestorePhase};
use lifeboat_cluster::{ApiError, objects};
use lifeboat_control::{Known, LongWork, WorkEnd};
use lifeboat_web::Metrics;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::dynamic;

pub use preview::preview_restore;

/// The annotation that cancels the restore if its value is "true". Deleting the Restore has the same effect.
const CANCEL: &str = "lifeboat.io/cancel";

/// How often the existing Restores are counted.
const COUNTED: Duration = Duration::from_secs(5);

/// How often a Restore is reconciled while its run exists: a run that ended without a final phase is started again.
const LOOK: Duration = Duration::from_secs(2);

const AT_ONCE: Duration = Duration::from_millis(100);

/// The input of a run.
struct Order {
    restore: Restore,
    cancel: CancellationToken,
}

/// The function that executes a run. Tests replace it.
type Run = Box<dyn Fn(Context, Order) -> BoxFuture<'static, WorkEnd> + Send + Sync>;

struct State {
    resource: ApiResource,
    /// The runs of this term.
    runs: LongWork,
    run: Run,
}

impl State {
    fn new(metrics: &Metrics, run: Run) -> Self {
        let runs = LongWork::new(metrics, "restore");
        Self { resource: objects::resource_of::<Restore>(), runs, run }
    }

    /// Starts a run for the Restore, unless one is running.
    fn start(&self, context: &Context, restore: Restore) {
        let uid = restore.uid().unwrap_or_default();
        self.runs.start(&uid, |cancel| (self.run)(context.clone(), Order { restore, cancel }));
    }
}

pub(crate) async fn run(context: &Context, shutdown: &CancellationToken) {
    let run: Run = Box::new(|context, order| async move { execute::execute(&context, order).await }.boxed());
    let state = Arc::new(State::new(&context.core.metrics, run));
    let watches = context.watches(&state.resource).until(shutdown);
    let restores = watches.known();
    tokio::join!(
        count(context, &restores, shutdown),
        dynamic::drive("restore", watches, context.clone(), state.clone(), reconcile),
    );
    state.runs.leave().await;
}

/// Updates the metric of existing Restores.
async fn count(context: &Context, restores: &Known, shutdown: &CancellationToken) {
    while shutdown.run_until_cancelled(tokio::time::sleep(COUNTED)).await.is_some() {
        context.metrics.set_restore_total(restores.len());
    }
}

async fn reconcile(
    object: Arc<DynamicObject>,
    context: Context,
    state: Arc<State>,
) -> Result<Action, ApiError> {
    let api = objects::namespaced(&context.client, &context.namespace, &state.resource);
    let uid = object.uid().unwrap_or_default();
    let cancelled = object.annotations().get(CANCEL).is_some_and(|value| value == "true");
    if state.runs.is_running(&uid) {
        if cancelled || object.metadata.deletion_timestamp.is_some() {
            state.runs.cancel(&uid);
        }
        return Ok(Action::requeue(LOOK));
    }
    if object.metadata.deletion_timestamp.is_some() {
        return delete::delete(&context, &api, &object).await;
    }
    let restore = match objects::typed::<Restore>(&object) {
        Ok(restore) => restore,
        Err(error) => return status::report_unreadable(&context, &object, &error).await,
    };
    match restore.phase() {
        RestorePhase::New => {}
        RestorePhase::Other(text) if text.is_empty() => {}
        phase if phase.is_terminal() || matches!(phase, RestorePhase::Other(_)) => {
            return Ok(Action::await_change());
        }
        // Another server started it; the run continues at the stage that the phase names.
        _ => {
            if !go_on(&context, &api, &object, &restore, &state).await? {
                return Ok(Action::await_change());
            }
            // A run that must be cancelled is cancelled at the next reconcile.
            return Ok(Action::requeue(if cancelled { AT_ONCE } else { LOOK }));
        }
    }
    if !object.finalizers().iter().any(|name| name == RESTORE_FINALIZER) {
        let mut all = object.finalizers().to_vec();
        all.push(RESTORE_FINALIZER.to_owned());
        objects::merge(&api, &object, json!({"metadata": {"finalizers": all}})).await?;
        return Ok(Action::await_change());
    }
    let gathered = gather::gather(&context, &restore).await?;
    match validate::validate(&restore, &gathered) {
        Err(problems) => status::refuse(&context, &api, &object, &restore, problems).await,
        Ok(claim) => {
            // The phase is claimed before any other effect; the run starts from the object that was written.
            let written = objects::merge(&api, &object, status::begin(&context, &restore, &claim)).await?;
            context.metrics.restore_started(&claim.schedule);
            if let Ok(restore) = objects::typed::<Restore>(&written) {
                state.start(&context, restore);
            }
            Ok(Action::requeue(LOOK))
        }
    }
}

/// Starts the next attempt of a run that another server started; false if there were too many attempts.
async fn go_on(
    context: &Context,
    api: &Api<DynamicObject>,
    object: &DynamicObject,
    restore: &Restore,
    state: &State,
) -> Result<bool, ApiError> {
    let written = objects::merge(api, object, status::go_on(context, restore)).await?;
    match objects::typed::<Restore>(&written) {
        Ok(next) if !next.phase().is_terminal() => {
            state.start(context, next);
            Ok(true)
        }
        _ => {
            status::gave_up(context, restore).await;
            Ok(false)
        }
    }
}
