//! An archive in a bucket, an API server of a few lines, and the run of a Restore over them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use lifeboat_archive::documents::{Results, decode, encode};
use lifeboat_archive::{ArchiveWriter, BackupFiles, RestoreFiles, WriterOptions};
use lifeboat_cluster::testing::{Asked, client, failure};
use lifeboat_plan::catalogue::{GroupResource, ItemId};
use lifeboat_plugin::actions::{Registry, RestoreItemAction};
use lifeboat_store::Store;
use lifeboat_transfer::MoverSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::{Order, execute};
use crate::context::Context;
use crate::settings::VeleroSettings;
use crate::testing::volumes::FakeSnapshotter;
use crate::testing::{context_with, merge, settings};

pub(super) const GROUP: &str = "/apis/velero.io/v1/namespaces/lifeboat";
pub(super) const RESTORE: &str = "/apis/velero.io/v1/namespaces/lifeboat/restores/r";

/// What the API server does after it answered, by the number of the request.
type Watch = Box<dyn Fn(usize) + Send + Sync>;

/// What the API server holds and was asked.
#[derive(Default)]
pub(super) struct Api {
    pub(super) objects: Mutex<BTreeMap<String, Value>>,
    /// Phases that the Restore had, in order.
    pub(super) phases: Mutex<Vec<String>>,
    /// Paths of what was created.
    pub(super) created: Mutex<Vec<String>>,
    /// Requests that were no reads.
    pub(super) writes: Mutex<usize>,
    /// `group/version/plural`; the first version of a type is the preferred one.
    pub(super) served: Mutex<Vec<&'static str>>,
    /// Whether claims get no volume.
    pub(super) pending: Mutex<bool>,
    asked: Mutex<usize>,
    watch: Mutex<Option<Watch>>,
}

impl Api {
    /// Calls a function after every request.
    pub(super) fn on_request(&self, watch: impl Fn(usize) + Send + Sync + 'static) {
        *self.watch.lock().unwrap() = Some(Box::new(watch));
    }

    fn answer(&self, asked: &Asked) -> (u16, Value) {
        let answer = self.answer_of(asked);
        let mut count = self.asked.lock().unwrap();
        *count += 1;
        if let Some(watch) = self.watch.lock().unwrap().as_ref() {
            watch(*count);
        }
        answer
    }

    fn answer_of(&self, asked: &Asked) -> (u16, Value) {
        if let Some(found) = self.discovery(&asked.path) {
            return (200, found);
        }
        if asked.path.contains("/events") && asked.method != "GET" {
            return (201, asked.body.clone());
        }
        if asked.method != "GET" {
            *self.writes.lock().unwrap() += 1;
        }
        let mut objects = self.objects.lock().unwrap();
        match asked.method.as_str() {
            "POST" => {
                let name = asked.body["metadata"]["name"].as_str().unwrap_or_default();
                let path = format!("{}/{name}", asked.path);
                if objects.contains_key(&path) {
                    return failure(409, "AlreadyExists");
                }
                let mut made = asked.body.clone();
                if asked.path.ends_with("persistentvolumeclaims") && !*self.pending.lock().unwrap() {
                    let volume = made.pointer("/spec/volumeName").cloned();
                    let volume = volume.unwrap_or_else(|| json!("made-anew"));
                    merge(&mut made, &json!({"spec": {"volumeName": volume}, "status": {"phase": "Bound"}}));
                }
                self.created.lock().unwrap().push(path.clone());
                objects.insert(path, made.clone());
                (201, made)
            }
            "PATCH" => {
                let path = asked.path.trim_end_matches("/status");
                let Some(object) = objects.get_mut(path) else { return failure(404, "NotFound") };
                merge(object, &asked.body);
                if let Some(phase) = asked.body.pointer("/status/phase").and_then(Value::as_str) {
                    self.phases.lock().unwrap().push(phase.to_owned());
                }
                (200, object.clone())
            }
            "DELETE" => match objects.remove(&asked.path) {
                Some(found) => (200, found),
                None => failure(404, "NotFound"),
            },
            _ if is_list(&asked.path, &self.served.lock().unwrap()) => {
                let within = format!("{}/", asked.path);
                let items = objects.iter().filter(|(path, _)| path.starts_with(&within));
                let items: Vec<&Value> = items.map(|(_, object)| object).collect();
                (
                    200,
                    json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": items}),
                )
            }
            _ => match objects.get(&asked.path) {
                Some(found) => (200, found.clone()),
                None if asked.path.ends_with("configmaps") => (200, json!({"items": []})),
                None => failure(404, "NotFound"),
            },
        }
    }

    fn discovery(&self, path: &str) -> Option<Value> {
        if path == "/version" {
            let mut version = json!({"major": "1", "minor": "34", "gitVersion": "v1.34.4"});
            for key in ["gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"] {
                version[key] = json!("");
            }
            return Some(version);
        }
        let core = match path {
            "/api" => true,
            "/apis" => false,
            _ => return None,
        };
        let mut groups: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for name in self.served.lock().unwrap().iter() {
            let [group, version, plural] = name.split('/').collect::<Vec<_>>()[..] else { panic!("{name}") };
            if group.is_empty() == core {
                let resource = served(group, version, plural);
                let versions = groups.entry(group).or_default();
                match versions.iter_mut().find(|known| known["version"] == version) {
                    Some(known) => known["resources"].as_array_mut().unwrap().push(resource),
                    None => versions.push(json!({"version": version, "resources": [resource]})),
                }
            }
        }
        let items = groups.into_iter().map(|(name, versions)| {
            let metadata = if core { json!({}) } else { json!({"name": name}) };
            json!({"metadata": metadata, "versions": versions})
        });
        Some(json!({"items": items.collect::<Vec<_>>()}))
    }
}

/// Whether a path is that of a list that is answered.
fn is_list(path: &str, served: &[&str]) -> bool {
    let always = [
        "/volumepluginrestores",
        "/volumesnapshotlocations",
        "/events",
        "/datadownloads",
        "/podvolumerestores",
    ];
    let snapshots =
        path.starts_with("/apis/snapshot.storage.k8s.io/v1/volumesnapshot") && path.matches('/').count() == 4;
    always.iter().any(|kind| path.ends_with(kind))
        || snapshots
            && served.iter().any(|known| path.ends_with(known.rsplit('/').next().unwrap_or_default()))
}

fn served(group: &str, version: &str, plural: &str) -> Value {
    let kind = kind(plural);
    let scope = if matches!(
        plural,
        "namespaces" | "persistentvolumes" | "volumesnapshotcontents" | "volumesnapshotclasses"
    ) {
        "Cluster"
    } else {
        "Namespaced"
    };
    json!({"resource": plural, "responseKind": {"group": group, "version": version, "kind": kind},
        "scope": scope, "singularResource": kind.to_lowercase(), "verbs": ["list", "get", "create", "delete"]})
}

fn kind(plural: &str) -> &'static str {
    match plural {
        "configmaps" => "ConfigMap",
        "namespaces" => "Namespace",
        "pods" => "Pod",
        "persistentvolumes" => "PersistentVolume",
        "persistentvolumeclaims" => "PersistentVolumeClaim",
        "datauploads" => "DataUpload",
        "backups" => "Backup",
        "volumesnapshots" => "VolumeSnapshot",
        "volumesnapshotcontents" => "VolumeSnapshotContent",
        "volumesnapshotclasses" => "VolumeSnapshotClass",
        "widgets" => "Widget",
        other => panic!("{other} has no kind"),
    }
}

/// One item of an archive: `group/version/plural`, `namespace/name`, and its fields.
pub(super) type Held = (&'static str, &'static str, Value);

/// A bucket and a cluster.
pub(super) struct Setting {
    pub(super) directory: tempfile::TempDir,
    pub(super) store: Store,
    pub(super) api: Arc<Api>,
    pub(super) actions: Vec<Arc<dyn RestoreItemAction>>,
    pub(super) snapshotter: Option<FakeSnapshotter>,
    /// Whether the actions for CSI snapshots run.
    pub(super) csi: bool,
    pub(super) settings: VeleroSettings,
    pub(super) movers: MoverSettings,
    pub(super) cancel: CancellationToken,
}

impl Setting {
    /// With the backup `b` and without its archive, and the Restore `r` of `spec`.
    pub(super) fn new(mut spec: Value) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("bucket")).unwrap();
        let store = Store::local(directory.path().join("bucket")).unwrap();
        let api = Arc::new(Api::default());
        *api.served.lock().unwrap() = vec![
            "/v1/configmaps",
            "/v1/namespaces",
            "/v1/pods",
            "/v1/persistentvolumes",
            "/v1/persistentvolumeclaims",
        ];
        let location = json!({"apiVersion": "velero.io/v1", "kind": "BackupStorageLocation",
            "metadata": {"name": "default"},
            "spec": {"provider": "lifeboat.io/local", "objectStorage": {"bucket": "bucket"},
                "config": {"path": directory.path().to_str().unwrap()}}, "status": {"phase": "Available"}});
        let backup = json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": "b"},
            "spec": {"storageLocation": "default"}, "status": {"phase": "Completed"}});
        spec["backupName"] = json!("b");
        let restore = json!({"apiVersion": "velero.io/v1", "kind": "Restore",
            "metadata": {"name": "r", "namespace": "lifeboat", "uid": "ru"}, "spec": spec,
            "status": {"phase": "InProgress"}});
        api.objects.lock().unwrap().extend([
            (format!("{GROUP}/backupstoragelocations/default"), location),
            (format!("{GROUP}/backups/b"), backup),
            (RESTORE.to_owned(), restore),
        ]);
        Self {
            directory,
            store,
            api,
            actions: lifeboat_plugin::builtin::restore::actions(),
            snapshotter: None,
            csi: false,
            settings: settings(),
            movers: MoverSettings::default(),
            cancel: CancellationToken::new(),
        }
    }

    /// The same with an archive of these items; those of a version other than the first of their type are further ones.
    pub(super) async fn holding(spec: Value, items: &[Held]) -> Self {
        let setting = Self::new(spec);
        let store = Arc::new(Store::local(setting.directory.path().join("bucket")).unwrap());
        let key = BackupFiles::new("b").unwrap().contents();
        let writer = ArchiveWriter::start(store, key, &WriterOptions { threads: 1 });
        let mut preferred: BTreeMap<(String, String), String> = BTreeMap::new();
        for (kind_of, place, fields) in items {
            let [group, version, plural] = kind_of.split('/').collect::<Vec<_>>()[..] else { panic!() };
            let (namespace, name) =
                place.split_once('/').map_or((None, *place), |(namespace, name)| (Some(namespace), name));
            let api_version = if group.is_empty() { version.into() } else { format!("{group}/{version}") };
            let mut object =
                json!({"apiVersion": api_version, "kind": kind(plural), "metadata": {"name": name}});
            if let Some(namespace) = namespace {
                object["metadata"]["namespace"] = json!(namespace);
            }
            merge(&mut object, fields);
            let id = ItemId {
                resource: GroupResource::new(group, plural),
                namespace: namespace.map(str::to_owned),
                name: name.to_owned(),
            };
            let first = preferred.entry((group.into(), plural.into())).or_insert_with(|| version.into());
            writer.append(&id, version, first == version, Bytes::from(object.to_string())).await.unwrap();
        }
        writer.finish().await.unwrap();
        setting
    }

    pub(super) fn object(&self, path: &str) -> Option<Value> {
        self.api.objects.lock().unwrap().get(path).cloned()
    }

    pub(super) fn status(&self) -> Value {
        self.object(RESTORE).unwrap()["status"].clone()
    }

    pub(super) fn phases(&self) -> Vec<String> {
        self.api.phases.lock().unwrap().clone()
    }

    pub(super) async fn put<T: Serialize>(&self, key: &str, document: &T) {
        self.store.put(key, encode(document).unwrap()).await.unwrap();
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, key: &str) -> T {
        decode(&self.store.get(key).await.unwrap()).unwrap()
    }

    pub(super) async fn results(&self) -> Results {
        self.get(&files().results()).await
    }

    pub(super) async fn context(&self) -> Context {
        let server = self.api.clone();
        let client = client(move |asked| server.answer(&asked)).await;
        let mut context = context_with(client, self.settings.clone(), self.movers.clone());
        if let Some(fake) = &self.snapshotter {
            context.snapshotters.insert("velero.io/fake".to_owned(), Arc::new(fake.clone()));
        }
        let mut restore = self.actions.clone();
        if self.csi {
            restore.extend(crate::csi::restore_actions(&context.client));
        }
        context.actions = Arc::new(Registry { restore, ..Registry::default() });
        context
    }

    /// Runs the Restore as it is now; gives its status.
    pub(super) async fn run(&self) -> Value {
        let context = self.context().await;
        let restore = serde_json::from_value(self.object(RESTORE).unwrap()).unwrap();
        let order = Order { restore, cancel: self.cancel.clone() };
        Box::pin(execute::execute(&context, order)).await;
        self.status()
    }

    /// Runs it until the server has answered so many requests; then it is as if it was killed. Whether it ended before.
    pub(super) async fn run_until(&self, requests: usize) -> bool {
        let killed = CancellationToken::new();
        let kill = killed.clone();
        *self.api.asked.lock().unwrap() = 0;
        let watch = move |count| {
            if count >= requests {
                kill.cancel();
            }
        };
        *self.api.watch.lock().unwrap() = Some(Box::new(watch));
        let ended = tokio::select! {
            biased;
            () = killed.cancelled() => false,
            _ = self.run() => true,
        };
        *self.api.watch.lock().unwrap() = None;
        ended
    }
}

pub(super) fn files() -> RestoreFiles {
    RestoreFiles::new("r").unwrap()
}

/// A few objects of one namespace.
pub(super) fn shop() -> Vec<Held> {
    let map = |place| ("/v1/configmaps", place, json!({"data": {"a": "1"}}));
    vec![
        ("/v1/namespaces", "shop", json!({})),
        map("shop/a"),
        map("shop/b"),
        map("shop/c"),
        ("/v1/pods", "shop/web", json!({"spec": {"containers": [{"name": "main"}]}})),
    ]
}
