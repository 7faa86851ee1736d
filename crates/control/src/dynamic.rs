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

use crate::backoff::ObjectBackoffs;
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
    let shared = Arc::new(Shared { name, context, state, reconcile, backoffs: ObjectBackoffs::default() });
    let runs = watches.into().into_controllers().map(|controller| {
        let followed = shared.clone();
        controller
            .run(
                |object, shared: Arc<Shared<C, S, F>>| shared.reconcile(object),
                |object, error, shared| {
                    Action::requeue(shared.backoffs.failed(key(&object), error.is_conflict()))
                },
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
    backoffs: ObjectBackoffs,
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
        let attempt = self.backoffs.attempt(&key);
        let span = tracing::info_span!(
            "reconcile",
            controller = self.name,
            kind,
            namespace = key.0,
            name = key.1,
            attempt
        );
        let work = self.reconcile.call(object, self.context.clone(), self.state.clone());
        let outcome = async { work.await.inspect_err(warn) }.instrument(span).await;
        self.context.as_ref().metrics.count_reconcile(self.name, Outcome::of(&outcome, ApiError::category));
        if outcome.is_ok() {
            self.backoffs.succeeded(&key);
        }
        outcome
    }
}

impl<C, S, F> Shared<C, S, F> {
    /// Logs errors of the watch; failed reconciles are logged where they fail. An object that was deleted before its retry
    /// is forgotten.
    fn note<Q: std::error::Error + 'static>(&self, error: Option<controller::Error<ApiError, Q>>) {
        match error {
            None | Some(controller::Error::ReconcilerFailed(..)) => {}
            Some(controller::Error::ObjectNotFound(object)) => {
                self.backoffs.succeeded(&(object.namespace.clone().unwrap_or_default(), object.name.clone()));
            }
            Some(error) => tracing::warn!(
                controller = self.name,
                error = &error as &dyn std::error::Error,
                "watch failed; trying again"
            ),
        }
    }
}

/// Logs why a reconcile failed, inside its span, which names the object.
fn warn(error: &ApiError) {
    // A conflict only means that another client wrote first.
    if !error.is_conflict() {
        let (category, hint) = (error.category(), error.hint());
        tracing::warn!(error = error as &dyn std::error::Error, category, hint, "cannot reconcile");
    }
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
    use std::io;
    use std::sync::Mutex;

    use lifeboat_cluster::{Attempt, objects};
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

    /// What is logged, as text.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            locked(&self.0).extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_failed_reconcile_is_logged_with_kind_namespace_name_and_attempt() {
        let core = ApiServer::default().core().await;
        let resource = objects::resource("g", "v1", "Thing", "things");
        let reconcile = move |_: Arc<DynamicObject>, core: Core, _: Arc<()>| {
            let things = objects::namespaced(&core.client, "a", &resource);
            async move { things.get("gone").await.attempt("read the thing").map(|_| Action::await_change()) }
        };
        let shared = Arc::new(Shared {
            name: "things",
            context: core,
            state: Arc::new(()),
            reconcile,
            backoffs: ObjectBackoffs::default(),
        });
        let object =
            json!({"apiVersion": "g/v1", "kind": "Thing", "metadata": {"namespace": "a", "name": "one"}});
        let object: Arc<DynamicObject> = Arc::new(serde_json::from_value(object).unwrap());
        // The first attempt also registers the places that log: a test in another thread, which has no subscriber, would
        // disable them if it was the first.
        shared.clone().reconcile(object.clone()).await.unwrap_err();
        let pause = shared.backoffs.failed(key(&object), false);
        assert!(pause < Duration::from_secs(7), "{pause:?}");
        let log = Log::default();
        let lines = log.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || lines.clone()).finish();
        let logging = tracing::subscriber::set_default(subscriber);
        shared.clone().reconcile(object).await.unwrap_err();
        drop(logging);
        let text = String::from_utf8(locked(&log.0).clone()).unwrap();
        let span = r#"reconcile{controller="things" kind="Thing" namespace="a" name="one" attempt=2}"#;
        let warning = text.lines().find(|line| line.contains("cannot reconcile"));
        assert!(warning.is_some_and(|line| line.contains(span)), "{text}");
        let counted = shared.context.metrics.render();
        let labels = "controller=\"things\",outcome=\"Error\",category=\"not_found\"";
        assert!(counted.contains(&format!("lifeboat_reconciles_total{{{labels}}} 2")), "{counted}");
        assert!(warning.is_some_and(|line| line.contains("category=\"not_found\" hint=\"check")), "{text}");
    }

    #[test]
    fn zero_waits_for_a_change_and_never_spins() {
        assert_eq!(again_after(Duration::ZERO), Action::await_change());
        assert_eq!(again_after(Duration::from_secs(9)), Action::requeue(Duration::from_secs(9)));
    }
}
