//! Deletions in a directory, with a cluster in memory.

mod copies;
mod csi;
mod forged;
mod ownership;
mod snapshots;
mod unfinished;

use std::sync::Mutex;

use async_trait::async_trait;
use lifeboat_api::velero::Backup;
use lifeboat_archive::documents::BackupVolumeInfo;
use lifeboat_archive::{ArchiveWriter, BackupFiles, WriterOptions, documents};
use lifeboat_plan::catalogue::{GroupResource, ItemId};
use lifeboat_plan::velero::ownership::{OwnerId, OwnershipKeys};
use lifeboat_plugin::actions::{ActionError, AppliesTo, DeleteItemAction, Registry};
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::testing::Cluster;
use crate::testing::repositories::{PASSWORD, prepare};

#[derive(Default)]
struct Recorder {
    seen: Mutex<Vec<String>>,
    fails: bool,
}

#[async_trait]
impl DeleteItemAction for Recorder {
    #[allow(clippy::unnecessary_literal_bound)]
    fn name(&self) -> &str {
        "example.io/recorder"
    }
    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        // Any name of a type will do.
        Ok(AppliesTo::resources(&["cm"]))
    }
    async fn execute(&self, item: &Value, _backup: &Backup) -> Result<(), ActionError> {
        self.seen.lock().unwrap().push(item["metadata"]["name"].as_str().unwrap().to_owned());
        if self.fails { Err(ActionError::Failed("it does not want to".into())) } else { Ok(()) }
    }
}

/// A cluster with a backup of two items, its files, and two restores of it.
async fn cluster(phase: &str) -> Cluster {
    let cluster = Cluster::new().await;
    let files = BackupFiles::new("b").unwrap();
    let store = cluster.store();
    let writer = ArchiveWriter::start(Arc::new(store.clone()), files.contents(), &WriterOptions::default());
    for (resource, kind) in [("configmaps", "ConfigMap"), ("secrets", "Secret")] {
        let id = ItemId::namespaced(GroupResource::parse(resource), "shop", "settings");
        let json =
            json!({"apiVersion": "v1", "kind": kind, "metadata": {"namespace": "shop", "name": "settings"}});
        writer.append(&id, "v1", true, json.to_string().into()).await.unwrap();
    }
    writer.finish().await.unwrap();
    let backup = json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": "b"},
        "spec": {"storageLocation": "default"}, "status": {"phase": phase}});
    store.put(&files.metadata(), backup.to_string()).await.unwrap();
    store.put("restores/r/restore-r-logs.gz", "x").await.unwrap();
    store.put("backups/other/velero-backup.json", "{}").await.unwrap();
    cluster.put("backups", &backup);
    for (name, of) in [("r", "b"), ("s", "other")] {
        let restore = json!({"apiVersion": "velero.io/v1", "kind": "Restore", "metadata": {"name": name},
            "spec": {"backupName": of}, "status": {"phase": "Completed"}});
        cluster.put("restores", &restore);
    }
    cluster
}

/// The backup `b`, and the keys that prove what it made.
async fn owner(cluster: &Cluster) -> (OwnershipKeys, OwnerId<'static>) {
    prepare(cluster, PASSWORD);
    (crate::ownership::keys(&cluster.context).await.unwrap(), OwnerId { backup: "b", uid: "uid-b" })
}

/// Stores the list of volumes, with the proofs that a backup writes.
async fn put_volumes(cluster: &Cluster, volumes: &[BackupVolumeInfo]) {
    let (keys, owner) = owner(cluster).await;
    let volumes = crate::ownership::volumes(&keys, owner, volumes);
    let key = BackupFiles::new("b").unwrap().volume_info();
    cluster.store().put(&key, documents::encode(&volumes).unwrap()).await.unwrap();
}

/// One request, reconciled once; what it says then.
async fn request(cluster: &Cluster, backup: &str, action: Option<Arc<Recorder>>) -> Option<Value> {
    ask(cluster, backup);
    reconcile_stored(cluster, action).await
}

fn ask(cluster: &Cluster, backup: &str) {
    let now = cluster.context.now().to_string();
    let object = json!({"apiVersion": "velero.io/v1", "kind": "DeleteBackupRequest",
        "metadata": {"name": "q", "creationTimestamp": now}, "spec": {"backupName": backup}});
    cluster.put("deletebackuprequests", &object);
}

/// The existing request, reconciled once.
async fn reconcile_stored(cluster: &Cluster, action: Option<Arc<Recorder>>) -> Option<Value> {
    let delete = action.into_iter().map(|action| action as Arc<dyn DeleteItemAction>).collect();
    reconcile_with(cluster, delete).await
}

async fn reconcile_with(cluster: &Cluster, delete: Vec<Arc<dyn DeleteItemAction>>) -> Option<Value> {
    let object = serde_json::from_value(cluster.get("deletebackuprequests", "q").unwrap()).unwrap();
    let resource = objects::resource_of::<DeleteBackupRequest>();
    let state = Arc::new(State { resource, turns: Turns::default() });
    let mut context = cluster.context.clone();
    context.actions = Arc::new(Registry { delete, ..Registry::default() });
    reconcile(Arc::new(object), context, state).await.unwrap();
    cluster.get("deletebackuprequests", "q")
}

async fn keys(cluster: &Cluster) -> Vec<String> {
    use futures::TryStreamExt;
    cluster.store().list("").map_ok(|info| info.key).try_collect().await.unwrap()
}

fn errors(request: Option<Value>) -> String {
    let request = request.expect("the request stays");
    assert_eq!(request["status"]["phase"], "Processed");
    request["status"]["errors"].to_string()
}

#[tokio::test]
async fn a_backup_goes_with_its_files_its_restores_and_the_requests() {
    let cluster = cluster("Completed").await;
    let action = Arc::new(Recorder::default());
    assert_eq!(request(&cluster, "b", Some(action.clone())).await, None);
    assert_eq!(keys(&cluster).await, ["backups/other/velero-backup.json"]);
    assert_eq!(cluster.names("backups"), Vec::<String>::new());
    assert_eq!(cluster.names("restores"), ["s"]);
    assert_eq!(*action.seen.lock().unwrap(), ["settings"]);
}

#[tokio::test]
async fn the_volume_plugin_backups_of_a_backup_go_with_it() {
    let cluster = cluster("Completed").await;
    let object = json!({"apiVersion": "velero.io/v1", "kind": "VolumePluginBackup",
        "metadata": {"name": "snap-1", "labels": {"velero.io/backup-name": "b"}}});
    cluster.put("volumepluginbackups", &object);
    request(&cluster, "b", None).await;
    assert_eq!(cluster.names("volumepluginbackups"), Vec::<String>::new());
}

#[tokio::test]
async fn a_deletion_that_was_cut_short_goes_on() {
    let cluster = cluster("Deleting").await;
    cluster.store().delete("backups/b/velero-backup.json").await.unwrap();
    cluster.store().delete("backups/b/b.tar.gz").await.unwrap();
    cluster.store().put("backups/b/b-logs.gz", "x").await.unwrap();
    assert_eq!(request(&cluster, "b", Some(Arc::default())).await, None);
    assert_eq!(keys(&cluster).await, ["backups/other/velero-backup.json"]);
    assert_eq!(cluster.names("backups"), Vec::<String>::new());
}

#[tokio::test]
async fn an_action_that_fails_keeps_the_backup_and_is_named() {
    let cluster = cluster("Completed").await;
    let action = Arc::new(Recorder { fails: true, ..Recorder::default() });
    let said = errors(request(&cluster, "b", Some(action)).await);
    assert!(said.contains("configmaps shop/settings") && said.contains("it does not want to"), "{said}");
    assert_eq!(cluster.get("backups", "b").unwrap()["status"]["phase"], "Completed");
    assert!(cluster.store().exists("backups/b/b.tar.gz").await.unwrap());
}

#[rstest]
#[case::runs("InProgress", "still in progress")]
#[case::finalizing("Finalizing", "still in progress")]
#[tokio::test]
async fn a_backup_that_runs_is_not_touched(#[case] phase: &str, #[case] message: &str) {
    let cluster = cluster(phase).await;
    let said = errors(request(&cluster, "b", None).await);
    assert!(said.contains(message), "{said}");
    assert_eq!(cluster.get("backups", "b").unwrap()["status"]["phase"], phase);
    assert!(cluster.store().exists("backups/b/velero-backup.json").await.unwrap());
}

#[tokio::test]
async fn a_backup_that_a_restore_reads_is_not_touched() {
    let cluster = cluster("Completed").await;
    cluster.change("restores", "r", &json!({"status": {"phase": "InProgress"}}));
    let said = errors(request(&cluster, "b", None).await);
    assert!(said.contains("'r'"), "{said}");
}

#[rstest]
#[case::read_only(json!({"spec": {"accessMode": "ReadOnly"}}), "read-only")]
#[case::unavailable(json!({"status": {"phase": "Unavailable"}}), "unavailable")]
#[tokio::test]
async fn a_location_that_cannot_be_written_keeps_its_backups(#[case] change: Value, #[case] message: &str) {
    let cluster = cluster("Completed").await;
    cluster.change("backupstoragelocations", "default", &change);
    let said = errors(request(&cluster, "b", None).await);
    assert!(said.contains(message), "{said}");
    assert_eq!(cluster.names("backups"), ["b"]);
}

#[rstest]
#[case::no_such_backup("nothing", "not found")]
#[case::no_name("", "spec.backupName")]
#[tokio::test]
async fn a_request_for_nothing_says_so(#[case] backup: &str, #[case] message: &str) {
    let cluster = cluster("Completed").await;
    let said = errors(request(&cluster, backup, None).await);
    assert!(said.contains(message), "{said}");
}

#[tokio::test]
async fn a_backup_that_never_began_needs_no_location() {
    let cluster = cluster("FailedValidation").await;
    cluster.change("backups", "b", &json!({"spec": {"storageLocation": "nowhere"}}));
    cluster.change("restores", "r", &json!({"spec": {"backupName": "other"}}));
    assert_eq!(request(&cluster, "b", None).await, None);
    assert_eq!(cluster.names("backups"), Vec::<String>::new());
}
