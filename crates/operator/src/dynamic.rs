//! Runs one controller over objects whose shape is not trusted: the watch never breaks because one object cannot be
//! read; the reconciler gets each object as it is.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::controller::Action;
use kube::runtime::watcher;
use kube::runtime::{Controller, controller};
use kube::{Api, ResourceExt};
use lifeboat_cluster::connect::WATCH_SECONDS;
use lifeboat_cluster::{ApiError, objects};
use lifeboat_web::Outcome;

use crate::context::Context;

/// Makes the controller; callers may add watches before they hand it to [`drive`].
pub(crate) fn controller(context: &Context, resource: &ApiResource) -> Controller<DynamicObject> {
    let api: Api<DynamicObject> = objects::namespaced(&context.client, &context.settings.namespace, resource);
    Controller::new_with(api, watching(), resource.clone())
        .with_config(controller::Config::default().concurrency(32))
}

/// How everything is watched.
pub(crate) fn watching() -> watcher::Config {
    watcher::Config::default().timeout(WATCH_SECONDS)
}

/// Looks again after this time; zero means only when something changes.
pub(crate) fn again_after(time: Duration) -> Action {
    if time.is_zero() { Action::await_change() } else { Action::requeue(time) }
}

/// Drives the controller for ever. `reconcile` does the work for one object and says when to look again.
pub(crate) async fn drive<S, F>(
    name: &'static str,
    controller: Controller<DynamicObject>,
    context: Context,
    state: Arc<S>,
    reconcile: F,
) where
    S: Send + Sync + 'static,
    F: AsyncReconcile<S>,
{
    let shared = Arc::new(Shared { name, context, state, reconcile });
    controller
        .run(
            |object, shared: Arc<Shared<S, F>>| async move {
                let outcome =
                    shared.reconcile.call(object.clone(), shared.context.clone(), shared.state.clone()).await;
                let label = if outcome.is_ok() { Outcome::Ok } else { Outcome::Error };
                shared.context.metrics.count_reconcile(shared.name, label);
                outcome
            },
            |object, error, shared| {
                // A conflict is the ordinary news that somebody else wrote first: look again, say nothing.
                if !error.is_conflict() {
                    tracing::warn!(
                        controller = shared.name,
                        object = object.name_any(),
                        error = error as &dyn std::error::Error,
                        "cannot reconcile"
                    );
                }
                Action::requeue(Duration::from_secs(if error.is_conflict() { 1 } else { 10 }))
            },
            shared,
        )
        .for_each(|outcome| async move {
            // Failed reconciles are told above; an object that was deleted while it waited its turn is no news.
            if let Err(error) = outcome
                && !matches!(
                    error,
                    controller::Error::ReconcilerFailed(..) | controller::Error::ObjectNotFound(_)
                )
            {
                tracing::warn!(
                    controller = name,
                    error = &error as &dyn std::error::Error,
                    "watch disturbed"
                );
            }
        })
        .await;
}

struct Shared<S, F> {
    name: &'static str,
    context: Context,
    state: Arc<S>,
    reconcile: F,
}

/// A reconciler: an object in, when to look again out.
pub(crate) trait AsyncReconcile<S>: Send + Sync + 'static {
    fn call(
        &self,
        object: Arc<DynamicObject>,
        context: Context,
        state: Arc<S>,
    ) -> impl Future<Output = Result<Action, ApiError>> + Send;
}

impl<S, F, Fut> AsyncReconcile<S> for F
where
    F: Fn(Arc<DynamicObject>, Context, Arc<S>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, ApiError>> + Send,
{
    fn call(
        &self,
        object: Arc<DynamicObject>,
        context: Context,
        state: Arc<S>,
    ) -> impl Future<Output = Result<Action, ApiError>> + Send {
        self(object, context, state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_waits_for_a_change_and_never_spins() {
        assert_eq!(again_after(Duration::ZERO), Action::await_change());
        assert_eq!(again_after(Duration::from_secs(9)), Action::requeue(Duration::from_secs(9)));
    }
}
