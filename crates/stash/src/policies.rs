//! Whether the API server checks who creates and changes the objects on which this server acts. The policies of the
//! installation are known from a watch. If one is missing or changed, controllers do not act on the objects that it
//! would check, and say so in their status.

use std::sync::{Arc, Mutex};

use futures::StreamExt;
use futures::stream::select;
use jiff::Timestamp;
use kube::Api;
use kube::api::{DynamicObject, ListParams};
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_control::dynamic::watching;
use lifeboat_control::{Core, Signal, locked};
use lifeboat_plan::install::policies::{API, Enforcement, KINDS, Unenforced};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// The label of the policies of all installations.
const OURS: &str = "app.kubernetes.io/name=lifeboat";

/// What is known about the policies. Clones share it.
#[derive(Clone)]
pub(crate) struct Policies {
    known: Arc<Mutex<Known>>,
    /// Sent when that changes.
    pub(crate) changed: Signal,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Known {
    /// The cluster has not answered yet.
    Nothing,
    /// Why they cannot be read.
    Unreadable(String),
    Read(Enforcement),
}

/// Why objects of a kind are not checked when they are created.
#[derive(Debug, thiserror::Error)]
enum Unchecked {
    #[error(
        "the admission policies of this server are not read yet; that takes a few seconds after its start"
    )]
    NotRead,
    #[error(
        "the server does not act on it, because it cannot read the admission policies that check who may create it: {0}"
    )]
    Unreadable(String),
    #[error("{0}")]
    NotInForce(Unenforced),
    #[error("no admission policy checks who may create a {0}; run `lifeboat install` again")]
    NoPolicy(String),
}

impl Known {
    /// Since when objects of a kind are checked, or why they are not.
    fn since(&self, kind: &str) -> Result<Timestamp, Unchecked> {
        match self {
            Known::Nothing => Err(Unchecked::NotRead),
            Known::Unreadable(problem) => Err(Unchecked::Unreadable(problem.clone())),
            Known::Read(enforcement) => match enforcement.since(kind) {
                Some(since) => since.map_err(|unenforced| Unchecked::NotInForce(unenforced.clone())),
                None => Err(Unchecked::NoPolicy(kind.to_owned())),
            },
        }
    }
}

/// Whether an object was checked when it was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Checked,
    /// No policy checks its kind now. Whether the object was checked is known when the policies are back.
    NotNow(String),
    /// It is older than the policies.
    Never(String),
}

impl Policies {
    pub(crate) fn new() -> Self {
        Self { known: Arc::new(Mutex::new(Known::Nothing)), changed: Signal::default() }
    }

    /// The cluster has these policies and bindings.
    #[cfg(test)]
    pub(crate) fn set(&self, namespace: &str, found: &[Value]) {
        self.learn(Known::Read(Enforcement::of(namespace, found)));
    }

    /// All of them have always been in force.
    #[cfg(test)]
    pub(crate) fn in_force(namespace: &str) -> Self {
        let all = Self::new();
        let restics = lifeboat_plan::install::policies::restic_objects(namespace);
        all.set(namespace, &[lifeboat_plan::install::policies::objects(namespace), restics].concat());
        all
    }

    /// Why the server does not act on objects of a kind; None if the users who create and change them are checked.
    pub(crate) fn refusal(&self, kind: &str) -> Option<String> {
        self.since(kind).err().map(|unchecked| unchecked.to_string())
    }

    /// Whether an object whose spec cannot be changed was checked.
    pub(crate) fn standing(&self, kind: &str, created: Timestamp) -> Standing {
        match self.since(kind) {
            Err(unchecked) => Standing::NotNow(unchecked.to_string()),
            Ok(since) if created < since => Standing::Never(format!(
                "it was created at {created}, and who may create a {kind} is checked since {since} only; delete it and create it again"
            )),
            Ok(_) => Standing::Checked,
        }
    }

    /// Why objects of this kind are refused, on every replica: one that does not lead watches no policies, so it queries the cluster.
    pub(crate) async fn refusal_of_any_replica(
        &self,
        core: &Core,
        kind: &str,
    ) -> Result<Option<String>, ApiError> {
        if *locked(&self.known) != Known::Nothing {
            return Ok(self.refusal(kind));
        }
        let mut found = Vec::new();
        for (kind, plural) in KINDS {
            let api: Api<DynamicObject> =
                Api::all_with(core.client.clone(), &objects::resource(API.0, API.1, kind, plural));
            let listed = api.list(&ListParams::default().labels(OURS)).await;
            let listed = listed.attempt(format!("list objects of kind {kind}"))?;
            found.extend(listed.items.iter().map(|object| with_kind(kind, object)));
        }
        let checked = Known::Read(Enforcement::of(&core.namespace, &found)).since(kind);
        Ok(checked.err().map(|unchecked| unchecked.to_string()))
    }

    fn since(&self, kind: &str) -> Result<Timestamp, Unchecked> {
        locked(&self.known).since(kind)
    }

    /// Waits until the cluster has answered, because a server that has just started must not report every object as
    /// unchecked. False if `shutdown` was cancelled before.
    pub(crate) async fn wait_until_known(&self, shutdown: &CancellationToken) -> bool {
        let mut changed = Box::pin(self.changed.listen());
        while *locked(&self.known) == Known::Nothing {
            tokio::select! {
                () = shutdown.cancelled() => return false,
                change = changed.next() => if change.is_none() { return false },
            }
        }
        true
    }

    fn learn(&self, now: Known) {
        let mut known = locked(&self.known);
        if *known != now {
            if let Known::Unreadable(problem) = &now {
                tracing::warn!(
                    problem,
                    "cannot read the admission policies; objects of Stash's API are left alone"
                );
            }
            *known = now;
            drop(known);
            self.changed.give();
        }
    }

    /// Watches policies and bindings until `shutdown` is cancelled. The last known state is kept while a watch is
    /// interrupted.
    pub(crate) async fn run(&self, core: &Core, shutdown: &CancellationToken) {
        let [policies, bindings] = KINDS.map(|(kind, plural)| {
            let resource = objects::resource(API.0, API.1, kind, plural);
            let api: Api<DynamicObject> = Api::all_with(core.client.clone(), &resource);
            let writer = Writer::new(resource);
            let store = writer.as_reader();
            (store, reflector(writer, watcher(api, watching().labels(OURS))).default_backoff().boxed())
        });
        let stores = [(KINDS[0].0, policies.0), (KINDS[1].0, bindings.0)];
        let mut changes = select(policies.1.map(|change| (0, change)), bindings.1.map(|change| (1, change)));
        let mut is_read = [false; 2];
        loop {
            let (of, change) = tokio::select! {
                () = shutdown.cancelled() => break,
                change = changes.next() => match change { Some(change) => change, None => break },
            };
            match change {
                Ok(Event::Init | Event::InitApply(_)) => continue,
                Ok(Event::InitDone) => is_read[of] = true,
                Ok(Event::Apply(_) | Event::Delete(_)) => {}
                Err(error) => match refusal(&error).filter(|_| !is_read[of]) {
                    Some(problem) => self.learn(Known::Unreadable(problem)),
                    None if is_read[of] => {
                        let error = &error as &dyn std::error::Error;
                        tracing::debug!(error, "the watch of admission policies was disturbed");
                    }
                    None => {
                        let error = &error as &dyn std::error::Error;
                        tracing::warn!(error, "the admission policies are not read yet; trying again");
                    }
                },
            }
            if is_read == [true; 2] {
                let found = stores.iter().flat_map(|(kind, store)| {
                    store.state().into_iter().map(|object| with_kind(kind, &object))
                });
                self.learn(Known::Read(Enforcement::of(&core.namespace, &found.collect::<Vec<_>>())));
            }
        }
        *locked(&self.known) = Known::Nothing;
    }
}

/// A list does not repeat the kind of its items.
fn with_kind(kind: &str, object: &DynamicObject) -> Value {
    let mut object = objects::to_json(object);
    object["kind"] = Value::from(kind);
    object
}

/// The error of the API server if it is permanent: the server may not read policies, or the cluster does not serve
/// them.
fn refusal(error: &watcher::Error) -> Option<String> {
    let (watcher::Error::InitialListFailed(cause) | watcher::Error::WatchStartFailed(cause)) = error else {
        return None;
    };
    match cause {
        kube::Error::Api(status) if matches!(status.code, 403 | 404) => Some(status.message.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lifeboat_control::testing::{ApiServer, Requests, Verb, When};
    use lifeboat_plan::install::policies::{REPOSITORY, objects as policies};
    use serde_json::json;

    use super::*;

    const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

    fn path(object: &Value) -> String {
        let plural = KINDS.iter().find(|(kind, _)| object["kind"] == *kind).map(|(_, plural)| *plural);
        format!("{ADMISSION}/{}/{}", plural.unwrap(), object["metadata"]["name"].as_str().unwrap())
    }

    /// Runs a test while the policies are watched.
    async fn watched<F: Future<Output = ()>>(server: &ApiServer, test: impl FnOnce(Policies) -> F) {
        let (core, shutdown) = (server.core().await, CancellationToken::new());
        let policies = Policies::new();
        let both = async {
            tokio::select! {
                () = policies.run(&core, &shutdown) => panic!("the watch ended"),
                () = test(policies.clone()) => {}
            }
        };
        tokio::time::timeout(Duration::from_secs(30), both).await.unwrap();
    }

    #[tokio::test]
    async fn a_policy_that_is_altered_removed_or_brought_back_is_noticed() {
        let server = ApiServer::default();
        for object in policies("lifeboat") {
            server.put(&path(&object), object);
        }
        let restore = policies("lifeboat")
            .into_iter()
            .find(|object| path(object).contains("/restoresessions."))
            .unwrap();
        watched(&server, async |policies: Policies| {
            let mut changed = Box::pin(policies.changed.listen());
            assert!(policies.refusal("RestoreSession").unwrap().contains("not read yet"));
            changed.next().await.unwrap();
            assert_eq!(policies.refusal("RestoreSession"), None);

            server.change(&path(&restore), &json!({"spec": {"failurePolicy": "Ignore"}}));
            changed.next().await.unwrap();
            assert!(policies.refusal("RestoreSession").unwrap().contains("spec.failurePolicy"));
            assert_eq!(policies.refusal("BackupSession"), None);

            server.remove(&path(&restore));
            changed.next().await.unwrap();
            assert!(policies.refusal("RestoreSession").unwrap().contains("is missing"));

            server.put(&path(&restore), restore.clone());
            changed.next().await.unwrap();
            assert_eq!(policies.refusal("RestoreSession"), None);
        })
        .await;
    }

    #[tokio::test]
    async fn where_policies_cannot_be_read_nothing_is_acted_on_and_the_reason_is_shown() {
        let server = ApiServer::default();
        let list = Requests::new(Verb::List, &format!("{ADMISSION}/{}", KINDS[0].1));
        server.fail(list, When::Always, 403);
        watched(&server, async |policies: Policies| {
            let mut changed = Box::pin(policies.changed.listen());
            changed.next().await.unwrap();
            let kinds =
                ["BackupConfiguration", "BackupBatch", "BackupSession", "RestoreSession", "RestoreBatch"];
            for kind in kinds.into_iter().chain([REPOSITORY]) {
                assert!(
                    policies.refusal(kind).unwrap().contains("cannot read the admission policies"),
                    "{kind}"
                );
            }
        })
        .await;
    }

    #[tokio::test]
    async fn controllers_wait_for_the_first_answer_also_where_the_api_server_is_busy() {
        let server = ApiServer::default();
        for object in policies("lifeboat") {
            server.put(&path(&object), object);
        }
        let list = Requests::new(Verb::List, &format!("{ADMISSION}/{}", KINDS[0].1));
        server.fail(list, When::Next, 503);
        let shutdown = CancellationToken::new();
        let stopped = Policies::new();
        shutdown.cancel();
        assert!(!stopped.wait_until_known(&shutdown).await);
        watched(&server, async |policies: Policies| {
            assert!(policies.wait_until_known(&CancellationToken::new()).await);
            assert_eq!(policies.refusal("BackupBatch"), None, "nothing was said before the answer was there");
        })
        .await;
    }

    /// The gateway of a replica that does not lead opens Repositories, too.
    #[tokio::test]
    async fn a_replica_that_watches_no_policies_asks_the_cluster() {
        let server = ApiServer::default();
        let (core, known) = (server.core().await, Policies::new());
        let refusal = known.refusal_of_any_replica(&core, REPOSITORY).await.unwrap().unwrap();
        assert!(refusal.contains("repositories.lifeboat.lifeboat.io is missing"), "{refusal}");
        for object in policies("lifeboat") {
            server.put(&path(&object), object);
        }
        assert_eq!(known.refusal_of_any_replica(&core, REPOSITORY).await.unwrap(), None);
        assert!(known.refusal(REPOSITORY).is_some(), "what was asked for once is not kept");
    }

    #[test]
    fn an_object_that_is_older_than_its_policies_was_never_checked() {
        let policies = Policies::new();
        let mut objects = lifeboat_plan::install::policies::objects("lifeboat");
        for object in &mut objects {
            object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:10Z");
        }
        policies.set("lifeboat", &objects);
        let at = |second: i64| Timestamp::from_second(1_767_225_600 + second).unwrap();
        assert_eq!(policies.standing("RestoreBatch", at(10)), Standing::Checked);
        assert!(matches!(policies.standing("RestoreBatch", at(9)), Standing::Never(_)));
        policies.set("lifeboat", &[]);
        assert!(matches!(policies.standing("RestoreBatch", at(10)), Standing::NotNow(_)));
    }
}
