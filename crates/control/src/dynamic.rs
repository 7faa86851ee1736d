//! Runs one controller over objects whose shape is not trusted: the watch does not break because one object cannot be
//! read; the reconciler gets each object as it is. Every reconcile has a tracing span and is counted by outcome;
//! failed ones are repeated with a back-off. Called by the `run` of each controller.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::runtime::controller;
use kube::runtime::controller::Action;
use lifeboat_cluster::ApiError;
use lifeboat_web::Outcome;
use tracing::Instrument;

use crate::backoff::Backoff;
pub use crate::watches::watching;
use crate::{Core, Watches};

/// Reconcile again after this time; zero means only when something changes.
pub fn again_after(time: Duration) -> Action {
    if time.is_zero() { Action::await_change() } else { Action::requeue(time) }
}

/// Drives the watches until their shutdown. `reconcile` does the work for one object and returns when to reconcile it
/// again; it gets `context`, which is the caller's own, and `state`.
pub async fn drive<C, S, F>(
    name: &'static str,
    watches: impl Into<Watches>,
    context: C,
    state: Arc<S>,
    reconcile: F,
) where
    C: AsRef<Core> + Clone + Send + Sync + 'static,
    S: Send + Sync + 'static,
    F: AsyncReconcile<C, S>,
{
    let shared = Arc::new(Shared { name, context, state, reconcile, backoff: Backoff::default() });
    let runs = watches.into().into_controllers().map(|controller| {
        let followed = shared.clone();
        controller
            .run(
                |object, shared: Arc<Shared<C, S, F>>| shared.reconcile(object),
                |object, error, shared| retry(&object, error, &shared),
                shared.clone(),
            )
            .for_each(move |outcome| {
                followed.note(outcome.err());
                std::future::ready(())
            })
    });
    join_all(runs).await;
}

struct Shared<C, S, F> {
    name: &'static str,
    context: C,
    state: Arc<S>,
    reconcile: F,
    backoff: Backoff,
}

impl<C, S, F> Shared<C, S, F>
where
    C: AsRef<Core> + Clone + Send + Sync + 'static,
    S: Send + Sync + 'static,
    F: AsyncReconcile<C, S>,
{
    async fn reconcile(self: Arc<Self>, object: Arc<DynamicObject>) -> Result<Action, ApiError> {
        let key = key(&object);
        let kind = object.types.as_ref().map(|types| types.kind.as_str()).unwrap_or_default();
        let attempt = self.backoff.attempt(&key);
        let span = tracing::info_span!(
            "reconcile",
            controller = self.name,
            kind,
            namespace = key.0,
            name = key.1,
            attempt
        );
        let work = self.reconcile.call(object, self.context.clone(), self.state.clone());
        let outcome = work.instrument(span).await;
        let label = if outcome.is_ok() { Outcome::Ok } else { Outcome::Error };
        self.context.as_ref().metrics.count_reconcile(self.name, label);
        if outcome.is_ok() {
            self.backoff.succeeded(&key);
        }
        outcome
    }
}

impl<C, S, F> Shared<C, S, F> {
    /// Logs errors of the watch; failed reconciles are logged by `retry`. An object that was deleted before its retry
    /// is forgotten.
    fn note<Q: std::error::Error + 'static>(&self, error: Option<controller::Error<ApiError, Q>>) {
        match error {
            None | Some(controller::Error::ReconcilerFailed(..)) => {}
            Some(controller::Error::ObjectNotFound(object)) => {
                self.backoff.succeeded(&(object.namespace.clone().unwrap_or_default(), object.name.clone()));
            }
            Some(error) => tracing::warn!(
                controller = self.name,
                error = &error as &dyn std::error::Error,
                "watch failed; trying again"
            ),
        }
    }
}

/// When a failed reconcile is repeated.
fn retry<C, S, F>(object: &DynamicObject, error: &ApiError, shared: &Shared<C, S, F>) -> Action {
    let (namespace, name) = key(object);
    // A conflict only means that another client wrote first.
    if !error.is_conflict() {
        tracing::warn!(
            controller = shared.name,
            namespace,
            object = name,
            error = error as &dyn std::error::Error,
            "cannot reconcile"
        );
    }
    Action::requeue(shared.backoff.failed((namespace, name), error.is_conflict()))
}

fn key(object: &DynamicObject) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// A reconciler: takes an object, returns when to reconcile it again.
pub trait AsyncReconcile<C, S>: Send + Sync + 'static {
    fn call(
        &self,
        object: Arc<DynamicObject>,
        context: C,
        state: Arc<S>,
    ) -> impl Future<Output = Result<Action, ApiError>> + Send;
}

impl<C, S, F, Fut> AsyncReconcile<C, S> for F
where
    F: Fn(Arc<DynamicObject>, C, Arc<S>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, ApiError>> + Send,
{
    fn call(
        &self,
        object: Arc<DynamicObject>,
        context: C,
        state: Arc<S>,
    ) -> impl Future<Output = Result<Action, ApiError>> + Send {
        self(object, context, state)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use lifeboat_cluster::objects;
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::testing::ApiServer;
    use crate::{Scope, locked};

    #[tokio::test]
    async fn every_namespace_of_a_scope_is_reconciled_and_known() {
        let server = ApiServer::default();
        for namespace in ["a", "b", "elsewhere"] {
            let object = json!({"apiVersion": "g/v1", "kind": "Thing", "metadata": {"uid": namespace}});
            server.put(&format!("/apis/g/v1/namespaces/{namespace}/things/one"), object);
        }
        let core = server.core().await;
        let resource = objects::resource("g", "v1", "Thing", "things");
        let shutdown = CancellationToken::new();
        let scope = Scope::Namespaces(vec!["a".into(), "b".into()]);
        let watches = Watches::new(&core, &scope, &resource).until(&shutdown);
        let known = watches.known();
        let seen: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let end = shutdown.clone();
        let reconcile = move |object: Arc<DynamicObject>, _: Core, seen: Arc<Mutex<BTreeSet<String>>>| {
            let mut all = locked(&seen);
            all.insert(object.namespace().unwrap_or_default());
            if all.len() == 2 {
                end.cancel();
            }
            std::future::ready(Ok(Action::await_change()))
        };
        let driven = drive("things", watches, core, seen.clone(), reconcile);
        tokio::time::timeout(Duration::from_secs(30), driven).await.unwrap();
        assert_eq!(*locked(&seen), BTreeSet::from(["a".to_owned(), "b".to_owned()]));
        assert_eq!((known.len(), known.state().len()), (2, 2));
    }

    #[test]
    fn zero_waits_for_a_change_and_never_spins() {
        assert_eq!(again_after(Duration::ZERO), Action::await_change());
        assert_eq!(again_after(Duration::from_secs(9)), Action::requeue(Duration::from_secs(9)));
    }
}
