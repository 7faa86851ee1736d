//! The namespaces that this server serves, from a watch of their labels: of the namespaces in `--tenant-namespaces`,
//! those whose label names this server, as `lifeboat_plan::stash::served` decides. Test servers with a name can run
//! next to an installed server without a name.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, ResourceExt};
use lifeboat_cluster::{ApiError, Attempt};
use lifeboat_control::dynamic::watching;
use lifeboat_control::{Core, Scope, Signal, locked};
use lifeboat_plan::stash::served::{SERVED_BY, Served};
use tokio_util::sync::CancellationToken;

use crate::settings::StashSettings;

type Namespaces = Store<PartialObjectMeta<Namespace>>;

/// The namespaces of a server. Clones share what is known about them.
#[derive(Clone)]
pub(crate) struct ServedNamespaces {
    settings: Arc<Served>,
    /// The labels of all namespaces, while [`ServedNamespaces::run`] watches them.
    known: Arc<Mutex<Option<Namespaces>>>,
    /// Sent when this server gets or loses a namespace.
    pub(crate) changed: Signal,
}

impl ServedNamespaces {
    pub(crate) fn new(settings: &StashSettings) -> Self {
        let own = settings.served_by.clone().filter(|name| !name.is_empty());
        Self {
            settings: Arc::new(Served { own, tenants: settings.tenant_namespaces.clone() }),
            known: Arc::default(),
            changed: Signal::default(),
        }
    }

    /// The scope of watches.
    pub(crate) fn scope(&self) -> Scope {
        match self.settings.tenants.as_slice() {
            [] => Scope::Cluster,
            tenants => Scope::Namespaces(tenants.to_vec()),
        }
    }

    /// Whether this server works on the objects of a namespace. The label is known from a watch; before the watch has
    /// started, and if it is not allowed, the namespace is read.
    pub(crate) async fn serves(&self, core: &Core, namespace: &str) -> Result<bool, ApiError> {
        if !self.settings.may_serve(namespace) {
            return Ok(false);
        }
        let known = locked(&self.known).clone();
        if let Some(found) = known.and_then(|known| known.get(&ObjectRef::new(namespace))) {
            return Ok(self.is_own(&found));
        }
        let api: Api<Namespace> = Api::all(core.client.clone());
        let found = api.get_metadata_opt(namespace).await.attempt(format!("read Namespace {namespace}"))?;
        Ok(found.is_some_and(|found| self.is_own(&found)))
    }

    fn is_own(&self, namespace: &PartialObjectMeta<Namespace>) -> bool {
        self.settings.is_own(namespace.labels().get(SERVED_BY).map(String::as_str))
    }

    /// The namespaces that have the label of this server.
    fn served_of(&self, known: &Namespaces) -> BTreeSet<String> {
        let namespaces = known.state();
        let own = namespaces.iter().filter(|found| self.is_own(found));
        own.map(|found| found.name_any()).collect()
    }

    /// Watches the labels of all namespaces until `shutdown` is cancelled.
    pub(crate) async fn run(&self, core: &Core, shutdown: &CancellationToken) {
        let (store, writer) = reflector::store();
        let api: Api<PartialObjectMeta<Namespace>> = Api::all(core.client.clone());
        let mut changes = std::pin::pin!(reflector(writer, watcher(api, watching())).default_backoff());
        *locked(&self.known) = Some(store.clone());
        let mut served: Option<BTreeSet<String>> = None;
        loop {
            tokio::select! {
                () = shutdown.cancelled() => break,
                change = changes.next() => match change {
                    // An incomplete list says nothing about namespaces that it does not have yet.
                    Some(Ok(Event::Init | Event::InitApply(_))) => {}
                    Some(Ok(_)) => {
                        let now = self.served_of(&store);
                        if served.as_ref().is_some_and(|before| *before != now) {
                            self.changed.give();
                        }
                        served = Some(now);
                    }
                    Some(Err(error)) => {
                        let error = &error as &dyn std::error::Error;
                        tracing::debug!(error, "the watch of namespaces was disturbed");
                    }
                    None => break,
                },
            }
        }
        *locked(&self.known) = None;
    }
}

#[cfg(test)]
mod tests {
    use lifeboat_control::testing::ApiServer;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn served(tenants: &[&str], own: Option<&str>) -> ServedNamespaces {
        ServedNamespaces::new(&StashSettings {
            tenant_namespaces: tenants.iter().map(|&name| name.to_owned()).collect(),
            served_by: own.map(str::to_owned),
            ..StashSettings::default()
        })
    }

    #[rstest]
    #[case::no_label(None, None, true)]
    #[case::labelled(Some("test-1"), None, false)]
    #[case::own_label(Some("test-1"), Some("test-1"), true)]
    #[case::label_of_another(Some("test-2"), Some("test-1"), false)]
    #[case::named_server_and_no_label(None, Some("test-1"), false)]
    #[case::empty_label(Some(""), None, true)]
    #[tokio::test]
    async fn a_namespace_belongs_to_the_server_that_its_label_names(
        #[case] label: Option<&str>,
        #[case] own: Option<&str>,
        #[case] expected: bool,
    ) {
        let server = ApiServer::default();
        let labels = label.map(|label| json!({SERVED_BY: label}));
        server.put(
            "/api/v1/namespaces/shop",
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"labels": labels}}),
        );
        let core = server.core().await;
        assert_eq!(served(&[], own).serves(&core, "shop").await.unwrap(), expected);
    }

    #[tokio::test]
    async fn only_the_listed_namespaces_are_served_and_none_that_is_gone() {
        let server = ApiServer::default();
        server.put("/api/v1/namespaces/shop", json!({"apiVersion": "v1", "kind": "Namespace"}));
        let core = server.core().await;
        assert_eq!(served(&[], None).scope(), Scope::Cluster);
        let served = served(&["bank", "gone"], None);
        assert_eq!(served.scope(), Scope::Namespaces(vec!["bank".into(), "gone".into()]));
        assert!(!served.serves(&core, "shop").await.unwrap());
        assert!(!served.serves(&core, "gone").await.unwrap());
    }

    #[rstest]
    #[case::given_away(None, json!({"metadata": {"labels": {SERVED_BY: "test-1"}}}), true)]
    #[case::taken(Some("test-1"), json!({"metadata": {"labels": {SERVED_BY: "test-1"}}}), true)]
    #[case::of_no_concern(Some("test-2"), json!({"metadata": {"labels": {SERVED_BY: "test-1"}}}), false)]
    #[tokio::test]
    async fn a_namespace_changes_its_server_while_both_run(
        #[case] own: Option<&str>,
        #[case] change: serde_json::Value,
        #[case] is_signalled: bool,
    ) {
        let server = ApiServer::default();
        server.put("/api/v1/namespaces/shop", json!({"apiVersion": "v1", "kind": "Namespace"}));
        let (core, shutdown) = (server.core().await, CancellationToken::new());
        let served = served(&[], own);
        let before = served.serves(&core, "shop").await.unwrap();
        let mut changes = Box::pin(served.changed.listen());
        let watch = served.run(&core, &shutdown);
        let test = async {
            let store = loop {
                if let Some(store) = locked(&served.known).clone() {
                    break store;
                }
                tokio::task::yield_now().await;
            };
            store.wait_until_ready().await.unwrap();
            server.change("/api/v1/namespaces/shop", &change);
            // When the next change is known, the signal for the previous change has been given, if it is given at
            // all.
            server.put("/api/v1/namespaces/last", json!({"apiVersion": "v1", "kind": "Namespace"}));
            while store.get(&ObjectRef::new("last")).is_none() {
                tokio::task::yield_now().await;
            }
            let after = served.serves(&core, "shop").await.unwrap();
            assert_eq!(before != after, is_signalled);
            if is_signalled {
                assert_eq!(changes.next().await, Some(()));
            }
            shutdown.cancel();
        };
        let both = async { tokio::join!(watch, test) };
        tokio::time::timeout(std::time::Duration::from_secs(30), both).await.unwrap();
    }
}
