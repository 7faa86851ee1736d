//! An archive in a bucket, the API server of `lifeboat_control::testing`, and the run of a Restore over them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use lifeboat_archive::documents::{Results, decode, encode};
use lifeboat_archive::{ArchiveWriter, BackupFiles, RestoreFiles, WriterOptions};
use lifeboat_cluster::testing::Asked;
use lifeboat_control::Clock;
use lifeboat_control::testing::{ApiServer, ServedType, Write, WriteKind};
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

/// When the Restore was created, and when other objects are.
const TIMES: [&str; 2] = ["2026-11-16T00:00:00Z", "2026-11-16T01:00:00Z"];
/// A group that the cluster has only where a test serves types of it.
const SNAPSHOT_GROUP: &str = "snapshot.storage.k8s.io";

/// What happens after a request, by its number.
type Watch = Box<dyn Fn(usize) + Send + Sync>;

/// What the API server was asked, and what its controllers do.
#[derive(Default)]
pub(super) struct Api {
    /// Phases that objects got, in order.
    phases: Mutex<Vec<String>>,
    /// Whether claims get no volume.
    pending: AtomicBool,
    asked: AtomicUsize,
    watch: Mutex<Option<Watch>>,
}

impl Api {
    pub(super) fn phases(&self) -> Vec<String> {
        self.phases.lock().unwrap().clone()
    }

    fn answered(&self, asked: &Asked, code: u16) {
        let phase = asked.body.pointer("/status/phase").and_then(Value::as_str);
        if let Some(phase) = phase.filter(|_| asked.method == "PATCH" && code == 200) {
            self.phases.lock().unwrap().push(phase.to_owned());
        }
        let count = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(watch) = self.watch.lock().unwrap().as_ref() {
            watch(count);
        }
    }

    /// A claim gets the volume that it names, or a new one.
    fn written(&self, server: &ApiServer, write: &Write) {
        let is_claim = write.path.contains("/persistentvolumeclaims/");
        if write.kind != WriteKind::Created || !is_claim || self.pending.load(Ordering::Relaxed) {
            return;
        }
        server.edit(&write.path, |claim| {
            let volume = claim.pointer("/spec/volumeName").cloned().unwrap_or_else(|| json!("made-anew"));
            merge(claim, &json!({"spec": {"volumeName": volume}, "status": {"phase": "Bound"}}));
        });
    }
}

/// A type as `group/version/plural`.
fn served(name: &str) -> ServedType {
    let (api_version, plural) = name.rsplit_once('/').unwrap();
    let served = ServedType::new(api_version.trim_start_matches('/'), plural, kind(plural));
    match plural {
        "namespaces" | "persistentvolumes" | "volumesnapshotcontents" | "volumesnapshotclasses" => {
            served.cluster_scoped()
        }
        // So that a status can be restored.
        "configmaps" => served.with_status(),
        _ => served,
    }
}

fn kind(plural: &str) -> &'static str {
    match plural {
        "configmaps" => "ConfigMap",
        "namespaces" => "Namespace",
        "pods" => "Pod",
        "secrets" => "Secret",
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
    pub(super) server: ApiServer,
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
        let (server, api) = (ApiServer::default(), Arc::new(Api::default()));
        server.set_clock(Clock::new(|| TIMES[1].parse().unwrap()));
        server.without(SNAPSHOT_GROUP);
        let (answered, written) = (api.clone(), api.clone());
        server.after(move |_, asked, code| answered.answered(asked, code));
        server.on_write(move |server, write| written.written(server, write));
        let location = json!({"apiVersion": "velero.io/v1", "kind": "BackupStorageLocation",
            "metadata": {"name": "default"},
            "spec": {"provider": "lifeboat.io/local", "objectStorage": {"bucket": "bucket"},
                "config": {"path": directory.path().to_str().unwrap()}}, "status": {"phase": "Available"}});
        let backup = json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": "b"},
            "spec": {"storageLocation": "default"}, "status": {"phase": "Completed"}});
        spec["backupName"] = json!("b");
        let restore = json!({"apiVersion": "velero.io/v1", "kind": "Restore",
            "metadata": {"name": "r", "namespace": "lifeboat", "uid": "ru", "creationTimestamp": TIMES[0]},
            "spec": spec, "status": {"phase": "InProgress"}});
        server.put(&format!("{GROUP}/backupstoragelocations/default"), location);
        server.put(&format!("{GROUP}/backups/b"), backup);
        server.put(RESTORE, restore);
        let setting = Self {
            directory,
            store,
            server,
            api,
            actions: lifeboat_plugin::builtin::restore::actions(),
            snapshotter: None,
            csi: false,
            settings: settings(),
            movers: MoverSettings::default(),
            cancel: CancellationToken::new(),
        };
        setting.serve(&[
            "/v1/configmaps",
            "/v1/namespaces",
            "/v1/pods",
            "/v1/persistentvolumes",
            "/v1/persistentvolumeclaims",
        ]);
        setting
    }

    /// Types that the cluster serves too, as `group/version/plural`; the first version of a type is the preferred one.
    pub(super) fn serve(&self, types: &[&str]) {
        self.server.serve(types.iter().map(|name| served(name)));
    }

    /// The cluster has no CSI snapshots.
    pub(super) fn without_snapshots(&self) {
        self.server.without(SNAPSHOT_GROUP);
    }

    /// Claims get no volume from now on.
    pub(super) fn leave_claims_pending(&self) {
        self.api.pending.store(true, Ordering::Relaxed);
    }

    /// Calls a function after every request.
    pub(super) fn on_request(&self, watch: impl Fn(usize) + Send + Sync + 'static) {
        *self.api.watch.lock().unwrap() = Some(Box::new(watch));
    }

    /// The status of an object becomes this one.
    pub(super) fn set_status(&self, path: &str, status: Value) {
        self.server.edit(path, |object| object["status"] = status);
    }

    /// A setting whose backup has an archive with these items. The first version of a type is its preferred one;
    /// items of other versions are stored as additional versions.
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
        self.server.get(path)
    }

    pub(super) fn status(&self) -> Value {
        self.object(RESTORE).unwrap()["status"].clone()
    }

    pub(super) fn phases(&self) -> Vec<String> {
        self.api.phases()
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
        let client = self.server.client().await;
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
        self.api.asked.store(0, Ordering::Relaxed);
        self.on_request(move |count| {
            if count >= requests {
                kill.cancel();
            }
        });
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
