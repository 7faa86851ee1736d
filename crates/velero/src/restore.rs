//! Restore: validated, then run beside the others, several at once. A run belongs to this term of leadership: when it ends,
//! runs are dropped, and the next leader goes on with them. Objects that a run made are known by their label.
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

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::controller::Action;
use kube::{Api, ResourceExt};
use lifeboat_api::velero::names::RESTORE_FINALIZER;
use lifeboat_api::velero::{Restore, RestorePhase};
use lifeboat_cluster::{ApiError, objects};
use lifeboat_control::Known;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::dynamic;

pub use preview::preview_restore;

/// Annotation, "true": end the restore; also what deletion does.
const CANCEL: &str = "lifeboat.io/cancel";

/// How often the Restores that exist are counted.
const COUNTED: Duration = Duration::from_secs(5);

/// How often a run is looked at: one that ended without its end being written is begun again.
const LOOK: Duration = Duration::from_secs(2);

const AT_ONCE: Duration = Duration::from_millis(100);

/// A run that is asked for.
struct Order {
    restore: Restore,
    cancel: CancellationToken,
}

struct State {
    resource: ApiResource,
    /// The runs of this term, by the UID of their Restore.
    running: Mutex<BTreeMap<String, CancellationToken>>,
    orders: mpsc::UnboundedSender<Order>,
}

impl State {
    fn running(&self) -> MutexGuard<'_, BTreeMap<String, CancellationToken>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Orders a run, unless there is one.
    fn order(&self, restore: Restore) {
        let uid = restore.uid().unwrap_or_default();
        let cancel = CancellationToken::new();
        let mut running = self.running();
        if running.contains_key(&uid) {
            return;
        }
        running.insert(uid, cancel.clone());
        // The receiver lives as long as the term.
        let _ = self.orders.send(Order { restore, cancel });
    }
}

pub(crate) async fn run(context: &Context, shutdown: &CancellationToken) {
    let resource = objects::resource_of::<Restore>();
    let watches = context.watches(&resource).until(shutdown);
    let (orders, received) = mpsc::unbounded_channel();
    let restores = watches.known();
    let state = Arc::new(State { resource, running: Mutex::default(), orders });
    tokio::join!(
        count(context, &restores, shutdown),
        dynamic::drive("restore", watches, context.clone(), state.clone(), reconcile),
        run_orders(context, &state, received, shutdown),
    );
}

/// Shows how many Restores there are.
async fn count(context: &Context, restores: &Known, shutdown: &CancellationToken) {
    while shutdown.run_until_cancelled(tokio::time::sleep(COUNTED)).await.is_some() {
        context.metrics.set_restore_total(restores.len());
    }
}

/// Runs what is ordered. Dropped with the term, and with it every run.
async fn run_orders(
    context: &Context,
    state: &Arc<State>,
    mut orders: mpsc::UnboundedReceiver<Order>,
    shutdown: &CancellationToken,
) {
    let mut runs = JoinSet::new();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            Some(order) = orders.recv() => {
                let (context, state) = (context.clone(), state.clone());
                runs.spawn(async move {
                    let uid = order.restore.uid().unwrap_or_default();
                    let running = Running { state, uid };
                    Box::pin(execute::execute(&context, &running.state.resource, order)).await;
                });
            }
            Some(ended) = runs.join_next(), if !runs.is_empty() => {
                if let Err(error) = ended && error.is_panic() {
                    tracing::error!("a restore ended unexpectedly; this is a defect of Lifeboat. It is begun again");
                }
            }
        }
    }
}

/// A run, in the list of those of this term until it ends, however that is.
struct Running {
    state: Arc<State>,
    uid: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.state.running().remove(&self.uid);
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
    let run = state.running().get(&uid).cloned();
    if let Some(run) = run {
        if cancelled || object.metadata.deletion_timestamp.is_some() {
            run.cancel();
        }
        return Ok(Action::requeue(LOOK));
    }
    if object.metadata.deletion_timestamp.is_some() {
        return delete::delete(&context, &api, &object).await;
    }
    let restore = match objects::typed::<Restore>(&object) {
        Ok(restore) => restore,
        Err(error) => return status::unreadable(&context, &api, &object, &error.to_string()).await,
    };
    match restore.phase() {
        RestorePhase::New => {}
        RestorePhase::Other(text) if text.is_empty() => {}
        phase if phase.is_terminal() || matches!(phase, RestorePhase::Other(_)) => {
            return Ok(Action::await_change());
        }
        // Another server began it; the run goes on at the stage that the phase names.
        _ => {
            if !go_on(&context, &api, &object, &restore, &state).await? {
                return Ok(Action::await_change());
            }
            // A run that is to be cancelled is cancelled at the next look.
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
            // Claimed before anything happens; the run begins with what was written.
            let written = objects::merge(&api, &object, status::begin(&context, &restore, &claim)).await?;
            context.metrics.restore_started(&claim.schedule);
            if let Ok(restore) = objects::typed::<Restore>(&written) {
                state.order(restore);
            }
            Ok(Action::requeue(LOOK))
        }
    }
}

/// Orders the next attempt of a run that another server began; false where there were too many.
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
            state.order(next);
            Ok(true)
        }
        _ => {
            status::gave_up(context, restore).await;
            Ok(false)
        }
    }
}
