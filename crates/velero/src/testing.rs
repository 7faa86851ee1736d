//! For tests: a context, and a cluster with a location in a directory on the API server of `lifeboat_control::testing`.

pub(crate) mod acts;
pub(crate) mod repositories;
pub(crate) mod volumes;

use std::path::PathBuf;
use std::sync::Arc;

use kube::Client;
pub(crate) use lifeboat_cluster::testing::merge;
use lifeboat_control::Core;
use lifeboat_control::testing::{ApiServer, Requests, ServedType, Verb, When};
use lifeboat_store::Store;
use lifeboat_transfer::{MoverSettings, TransferService};
use lifeboat_web::Metrics;
use serde_json::{Value, json};

use crate::context::Context;
use crate::settings::VeleroSettings;

pub(crate) fn settings() -> VeleroSettings {
    VeleroSettings::new(lifeboat_store::Environment::default())
}

pub(crate) fn context(client: Client) -> Context {
    context_with(client, settings(), MoverSettings::default())
}

pub(crate) fn context_with(client: Client, settings: VeleroSettings, movers: MoverSettings) -> Context {
    let core = Core::new(client, Metrics::new("0"), "lifeboat", "me");
    let transfer = TransferService::new(&core, movers);
    Context::new(core, transfer, Arc::new(settings))
}

/// The objects of Lifeboat's namespace and of the cluster.
pub(crate) struct Cluster {
    pub(crate) context: Context,
    pub(crate) server: ApiServer,
    directory: tempfile::TempDir,
}

impl Cluster {
    /// With the location `default`, Available, in an empty directory.
    pub(crate) async fn new() -> Self {
        Self::with_settings(settings()).await
    }

    pub(crate) async fn with_settings(settings: VeleroSettings) -> Self {
        Self::with(settings, MoverSettings::default()).await
    }

    pub(crate) async fn with_movers(movers: MoverSettings) -> Self {
        Self::with(settings(), movers).await
    }

    async fn with(settings: VeleroSettings, movers: MoverSettings) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("bucket")).unwrap();
        let server = ApiServer::default();
        server.serve([
            ServedType::new("v1", "configmaps", "ConfigMap").short_name("cm"),
            ServedType::new("v1", "secrets", "Secret"),
        ]);
        let context = context_with(server.client().await, settings, movers);
        let cluster = Self { context, server, directory };
        cluster.put(
            "backupstoragelocations",
            &json!({
                "apiVersion": "velero.io/v1",
                "kind": "BackupStorageLocation",
                "metadata": {"name": "default"},
                "spec": {
                    "provider": "lifeboat.io/local",
                    "objectStorage": {"bucket": "bucket"},
                    "config": {"path": cluster.directory.path().to_str().unwrap()},
                },
                "status": {"phase": "Available"},
            }),
        );
        cluster
    }

    /// The objects, for functions that change them while something runs.
    pub(crate) fn shared(&self) -> SharedObjects {
        SharedObjects(self.server.clone())
    }

    /// The bucket of the location.
    pub(crate) fn store(&self) -> Store {
        Store::local(self.bucket()).unwrap()
    }

    /// The directory that is the bucket.
    pub(crate) fn bucket(&self) -> PathBuf {
        self.directory.path().join("bucket")
    }

    pub(crate) fn put(&self, plural: &str, object: &Value) {
        self.shared().put(plural, object);
    }

    pub(crate) fn get(&self, plural: &str, name: &str) -> Option<Value> {
        self.server.get(&path(plural, name))
    }

    pub(crate) fn change(&self, plural: &str, name: &str, patch: &Value) {
        self.server.change(&path(plural, name), patch);
    }

    /// The server may not read this object from now on.
    pub(crate) fn forbid(&self, plural: &str, name: &str) {
        self.server.fail(Requests::new(Verb::Get, &path(plural, name)), When::Always, 403);
    }

    pub(crate) fn names(&self, plural: &str) -> Vec<String> {
        let list = path(plural, "");
        let paths = self.server.paths(&list);
        paths.iter().filter_map(|path| path.strip_prefix(&list)).map(str::to_owned).collect()
    }

    /// Reasons of all events.
    pub(crate) fn events(&self) -> Vec<String> {
        self.server.events()
    }
}

/// The objects of a [`Cluster`].
#[derive(Clone)]
pub(crate) struct SharedObjects(ApiServer);

impl SharedObjects {
    pub(crate) fn put(&self, plural: &str, object: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap();
        self.0.put(&path(plural, name), object.clone());
    }

    pub(crate) fn remove(&self, plural: &str, name: &str) {
        self.0.remove(&path(plural, name));
    }
}

/// The path of an object of Lifeboat's namespace, or of the cluster.
fn path(plural: &str, name: &str) -> String {
    let group = match plural {
        "configmaps"
        | "namespaces"
        | "nodes"
        | "persistentvolumeclaims"
        | "persistentvolumes"
        | "pods"
        | "secrets" => "/api/v1",
        "deployments" => "/apis/apps/v1",
        "datadownloads" | "datauploads" => "/apis/velero.io/v2alpha1",
        _ => "/apis/velero.io/v1",
    };
    let namespace = match plural {
        "namespaces" | "nodes" | "persistentvolumes" => "",
        _ => "/namespaces/lifeboat",
    };
    format!("{group}{namespace}/{plural}/{name}")
}
