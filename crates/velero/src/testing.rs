//! For tests: a context, and a cluster of a few lines that keeps objects, with a location in a directory.

pub(crate) mod acts;
pub(crate) mod repositories;
pub(crate) mod volumes;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use kube::Client;
pub(crate) use lifeboat_cluster::testing::merge;
use lifeboat_cluster::testing::{Asked, client, failure};
use lifeboat_control::Core;
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

type Objects = Arc<Mutex<BTreeMap<String, Value>>>;

/// Objects by path, such as `backups/nightly`; events are not kept, their reasons are.
pub(crate) struct Cluster {
    pub(crate) context: Context,
    objects: Objects,
    events: Arc<Mutex<Vec<String>>>,
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
        let objects = Objects::default();
        let events = Arc::new(Mutex::new(Vec::new()));
        let (kept, told) = (objects.clone(), events.clone());
        let client = client(move |asked| answer(&kept, &told, &asked)).await;
        let context = context_with(client, settings, movers);
        let cluster = Self { context, objects, events, directory };
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
        SharedObjects(self.objects.clone())
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
        let name = object["metadata"]["name"].as_str().unwrap();
        self.objects.lock().unwrap().insert(format!("{plural}/{name}"), complete(object.clone()));
    }

    pub(crate) fn get(&self, plural: &str, name: &str) -> Option<Value> {
        self.objects.lock().unwrap().get(&format!("{plural}/{name}")).cloned()
    }

    pub(crate) fn change(&self, plural: &str, name: &str, patch: &Value) {
        merge(self.objects.lock().unwrap().get_mut(&format!("{plural}/{name}")).unwrap(), patch);
    }

    /// Nobody may read this object, such as `pods/db-0`, from now on.
    pub(crate) fn forbid(&self, path: &str) {
        self.objects.lock().unwrap().insert(path.to_owned(), json!({"forbidden": true}));
    }

    pub(crate) fn names(&self, plural: &str) -> Vec<String> {
        let objects = self.objects.lock().unwrap();
        let prefix = format!("{plural}/");
        objects.keys().filter_map(|path| path.strip_prefix(&prefix)).map(str::to_owned).collect()
    }

    /// Reasons of all events.
    pub(crate) fn events(&self) -> Vec<String> {
        self.events.lock().unwrap().clone()
    }
}

/// The objects of a [`Cluster`].
#[derive(Clone)]
pub(crate) struct SharedObjects(Objects);

impl SharedObjects {
    pub(crate) fn put(&self, plural: &str, object: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap();
        self.0.lock().unwrap().insert(format!("{plural}/{name}"), complete(object.clone()));
    }

    pub(crate) fn remove(&self, plural: &str, name: &str) {
        self.0.lock().unwrap().remove(&format!("{plural}/{name}"));
    }
}

fn complete(mut object: Value) -> Value {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    for (key, value) in [("namespace", "lifeboat"), ("uid", &format!("uid-{name}")), ("resourceVersion", "1")]
    {
        if object["metadata"][key].is_null() {
            object["metadata"][key] = value.into();
        }
    }
    object
}

fn answer(objects: &Objects, events: &Mutex<Vec<String>>, asked: &Asked) -> (u16, Value) {
    if asked.path.contains("/events") {
        events.lock().unwrap().push(asked.body["reason"].as_str().unwrap_or_default().to_owned());
        return (201, asked.body.clone());
    }
    match asked.path.as_str() {
        "/api" => return (200, served()),
        "/apis" => return (200, json!({"items": []})),
        "/version" => return (200, version()),
        _ => {}
    }
    let of_cluster = asked.path.strip_prefix("/api/v1/").unwrap_or_default();
    let place = asked.path.split("/namespaces/lifeboat/").nth(1).unwrap_or(of_cluster);
    let mut objects = objects.lock().unwrap();
    let found = objects.get(place).cloned();
    let missing = failure(404, "NotFound");
    match asked.method.as_str() {
        "GET" if found.as_ref().is_some_and(|found| found["forbidden"] == true) => failure(403, "Forbidden"),
        "GET" if place.contains('/') => found.map_or(missing, |object| (200, object)),
        "GET" => {
            let prefix = format!("{place}/");
            let items: Vec<_> = objects
                .iter()
                .filter(|(path, _)| path.starts_with(&prefix))
                .map(|(_, object)| object)
                .collect();
            (200, json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}))
        }
        "POST" => {
            let mut object = asked.body.clone();
            if object["metadata"]["name"].is_null() {
                let begin = object["metadata"]["generateName"].as_str().unwrap_or_default();
                object["metadata"]["name"] = format!("{begin}{}", objects.len()).into();
            }
            let path = format!("{place}/{}", object["metadata"]["name"].as_str().unwrap_or_default());
            if objects.contains_key(&path) {
                return failure(409, "AlreadyExists");
            }
            let object = complete(object);
            objects.insert(path, object.clone());
            (201, object)
        }
        "PATCH" => match objects.get_mut(place) {
            Some(object) => {
                let mut patch = asked.body.clone();
                if let Some(metadata) = patch.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata.remove("resourceVersion");
                }
                merge(object, &patch);
                (200, object.clone())
            }
            None => missing,
        },
        "DELETE" => {
            objects.remove(place);
            found.map_or(missing, |object| (200, object))
        }
        _ => failure(405, "MethodNotAllowed"),
    }
}

/// What discovery tells.
fn served() -> Value {
    let resource = |plural: &str, kind: &str, short: &[&str]| {
        json!({"resource": plural, "singularResource": kind.to_lowercase(), "scope": "Namespaced", "shortNames": short,
            "responseKind": {"kind": kind, "group": "", "version": ""}, "verbs": ["create", "delete", "get", "list"]})
    };
    let resources = [resource("configmaps", "ConfigMap", &["cm"]), resource("secrets", "Secret", &[])];
    json!({"items": [{"metadata": {"name": ""}, "versions": [{"version": "v1", "resources": resources}]}]})
}

fn version() -> Value {
    json!({"major": "1", "minor": "34", "gitVersion": "v1.34.4", "gitCommit": "", "gitTreeState": "",
        "buildDate": "", "goVersion": "", "compiler": "", "platform": ""})
}
