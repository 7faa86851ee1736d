//! What a backup of which nothing can be restored leaves in repositories: nothing, and nothing of another backup goes.

use kube::Resource;
use lifeboat_api::common::{BackupUid, LocationName, NamespaceName};
use lifeboat_archive::documents::{BackupVolumeInfo, DataMovementInfo, encode};
use lifeboat_archive::{BackupFiles, ObjectStore};
use lifeboat_cluster::objects;

use super::*;
use crate::backup::journal::{Journal, RepositoryEntry};
use crate::testing::Cluster;
use crate::testing::repositories::{PASSWORD, prepare, snapshots, tagged};

const UID: &str = "b-1";

async fn cluster() -> Cluster {
    let cluster = Cluster::new().await;
    prepare(&cluster, PASSWORD);
    cluster
}

fn files() -> BackupFiles {
    BackupFiles::new("b").unwrap()
}

/// A Backup after its pass, whose archive has one byte.
fn passed_backup() -> Backup {
    let object = json!({"apiVersion": "velero.io/v1", "kind": "Backup",
        "metadata": {"name": "b", "namespace": "lifeboat", "uid": UID,
            "annotations": {"lifeboat.io/attempt": "1", "lifeboat.io/archive-bytes": "1"}},
        "spec": {"storageLocation": "default", "snapshotMoveData": true},
        "status": {"phase": "Finalizing"}});
    serde_json::from_value(object).unwrap()
}

fn copy(snapshot: Option<&str>) -> Value {
    copy_of(UID, snapshot)
}

fn copy_of(uid: &str, snapshot: Option<&str>) -> Value {
    let mut object = json!({"apiVersion": "velero.io/v1", "kind": "PodVolumeBackup",
        "metadata": {"name": "b-copy", "labels": {"velero.io/backup-uid": uid}},
        "spec": {"backupStorageLocation": "default", "uploaderType": "restic", "volume": "data",
            "pod": {"kind": "Pod", "namespace": "shop", "name": "db-0"}},
        "status": {"phase": "Failed"}});
    if let Some(snapshot) = snapshot {
        object["status"] = json!({"phase": "Completed", "snapshotID": snapshot});
    }
    object
}

fn moved(snapshot: &str) -> BackupVolumeInfo {
    BackupVolumeInfo {
        pvc_namespace: "shop".into(),
        pvc_name: "data".into(),
        snapshot_data_moved: true,
        snapshot_data_movement_info: Some(DataMovementInfo {
            uploader_type: "restic".into(),
            snapshot_handle: snapshot.into(),
            ..DataMovementInfo::default()
        }),
        ..BackupVolumeInfo::default()
    }
}

async fn put(cluster: &Cluster, key: &str, document: &impl serde::Serialize) {
    ObjectStore::put(&cluster.store(), key, encode(document).unwrap()).await.unwrap();
}

/// The Backup is deleted; the objects that it owns went with it.
async fn delete_after_pass(cluster: &Cluster) {
    ObjectStore::put(&cluster.store(), &files().contents(), "x".into()).await.unwrap();
    let state = State::new(CancellationToken::new());
    deleted::follow(&state, &passed_backup());
    deleted::undo_deleted(&cluster.context, &state).await.unwrap();
}

enum Known {
    /// The backup's file has the snapshot's ID.
    Listed,
    /// The file lists the volume, and its mover ended after it was written.
    Late,
}

#[rstest]
#[case::listed(Known::Listed)]
#[case::late(Known::Late)]
#[tokio::test]
async fn a_backup_deleted_between_its_pass_and_its_end_leaves_no_copy(#[case] known: Known) {
    let cluster = cluster().await;
    let own = tagged(&cluster, "shop", &["backup=b", "backup-uid=b-1", "lifeboat-task=t-1"]).await;
    let other = tagged(&cluster, "shop", &["backup=b", "backup-uid=b-2", "lifeboat-task=t-2"]).await;
    let id = matches!(known, Known::Listed).then_some(own.as_str());
    put(&cluster, &files().volume_copies(), &[copy(id)]).await;
    delete_after_pass(&cluster).await;
    assert_eq!(snapshots(&cluster, "shop").await, [other]);
    assert_eq!(ObjectStore::keys(&cluster.store(), "backups/").await.unwrap(), Vec::<String>::new());
}

#[rstest]
#[case::listed(Known::Listed)]
#[case::late(Known::Late)]
#[tokio::test]
async fn a_backup_deleted_between_its_pass_and_its_end_leaves_no_moved_data(#[case] known: Known) {
    let cluster = cluster().await;
    let own = tagged(&cluster, "shop", &["backup=b", "backup-uid=b-1", "pvc=data"]).await;
    let other = tagged(&cluster, "shop", &["backup=b", "pvc=data"]).await;
    let id = if matches!(known, Known::Listed) { own.as_str() } else { "" };
    put(&cluster, &files().volume_info(), &[moved(id)]).await;
    delete_after_pass(&cluster).await;
    assert_eq!(snapshots(&cluster, "shop").await, [other]);
    assert_eq!(ObjectStore::keys(&cluster.store(), "backups/").await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_backup_that_storage_has_in_full_keeps_its_copies_when_its_object_is_deleted() {
    let cluster = cluster().await;
    let own = tagged(&cluster, "shop", &["backup=b", "backup-uid=b-1"]).await;
    put(&cluster, &files().volume_copies(), &[copy(Some(&own))]).await;
    ObjectStore::put(&cluster.store(), &files().metadata(), "{}".into()).await.unwrap();
    delete_after_pass(&cluster).await;
    assert_eq!(snapshots(&cluster, "shop").await, [own]);
}

#[tokio::test]
async fn files_of_another_backup_of_the_same_name_keep_what_they_list() {
    let cluster = cluster().await;
    let other = tagged(&cluster, "shop", &["backup=b", "backup-uid=b-2"]).await;
    put(&cluster, &files().volume_copies(), &[copy_of("b-2", Some(&other))]).await;
    ObjectStore::put(&cluster.store(), &files().contents(), "another archive".into()).await.unwrap();
    let state = State::new(CancellationToken::new());
    deleted::follow(&state, &passed_backup());
    deleted::undo_deleted(&cluster.context, &state).await.unwrap();
    assert_eq!(snapshots(&cluster, "shop").await, [other]);
    assert!(ObjectStore::exists(&cluster.store(), &files().contents()).await.unwrap());
}

#[tokio::test]
async fn a_backup_that_fails_after_its_pass_leaves_no_copy() {
    let cluster = cluster().await;
    let own = tagged(&cluster, "shop", &["backup=b", "backup-uid=b-1"]).await;
    cluster.put("podvolumebackups", &copy(Some(&own)));
    put(&cluster, &files().volume_copies(), &[copy(Some(&own))]).await;
    cluster.put("backups", &objects::to_json(&dynamic(&passed_backup())));
    let state = Arc::new(State::new(CancellationToken::new()));
    let shown = Arc::new(dynamic(&passed_backup()));
    // Its archive is gone from storage.
    let controller = Arc::new(Controller::new(&cluster.context, state));
    Box::pin(reconcile(shown, cluster.context.clone(), controller)).await.unwrap();
    assert_eq!(cluster.get("backups", "b").unwrap()["status"]["phase"], "Failed");
    assert_eq!(snapshots(&cluster, "shop").await, Vec::<String>::new());
    let copied = cluster.get("podvolumebackups", "b-copy").unwrap();
    assert_eq!(copied["status"]["phase"], "Failed", "{copied}");
}

fn dynamic(backup: &Backup) -> DynamicObject {
    let mut value = serde_json::to_value(backup).unwrap();
    value["kind"] = Backup::kind(&()).into();
    serde_json::from_value(value).unwrap()
}

#[tokio::test]
async fn a_backup_deleted_in_its_pass_while_no_server_ran_leaves_no_copy() {
    let cluster = cluster().await;
    let _own = tagged(&cluster, "shop", &["backup=b", "backup-uid=b-1", "lifeboat-task=t-1"]).await;
    let other = tagged(&cluster, "shop", &["backup=b", "backup-uid=b-2", "lifeboat-task=t-2"]).await;
    let repository = json!({"location": "default", "namespace": "shop"}).to_string();
    cluster.put(
        "configmaps",
        &json!({"metadata": {"name": format!("lifeboat-journal-{UID}"), "labels": {"lifeboat.io/journal": "backup"}},
            "data": {"repository.1": repository}}),
    );
    let state = State::new(CancellationToken::new());
    let found = left_behind::find(&cluster.context, &state).await.unwrap();
    left_behind::end(&cluster.context, &found).await;
    assert_eq!(snapshots(&cluster, "shop").await, [other]);
    assert_eq!(cluster.names("configmaps"), Vec::<String>::new());
}

#[rstest]
#[case::storage_has_it_in_full(Some(UID), true)]
#[case::storage_has_another_of_its_name(Some("b-2"), false)]
#[case::storage_has_none(None, false)]
#[tokio::test]
async fn a_backup_deleted_after_its_pass_while_no_server_ran_keeps_its_copies_only_if_it_can_be_restored(
    #[case] stored: Option<&str>,
    #[case] keeps: bool,
) {
    let cluster = cluster().await;
    let own = tagged(&cluster, "shop", &["backup=b", "backup-uid=b-1", "lifeboat-task=t-1"]).await;
    if let Some(uid) = stored {
        let document = json!({"metadata": {"name": "b", "uid": uid}}).to_string();
        ObjectStore::put(&cluster.store(), &files().metadata(), document.into()).await.unwrap();
    }
    let journal = Journal::of(cluster.context.client.clone(), "lifeboat", &BackupUid::new(UID));
    let (location, namespace) = (LocationName::new("default"), NamespaceName::new("shop"));
    journal.note_repository(&RepositoryEntry { backup: "b".into(), location, namespace }).await.unwrap();
    journal.note_csi().await.unwrap();
    journal.end_pass().await;
    let entries = cluster.get("configmaps", &format!("lifeboat-journal-{UID}")).unwrap()["data"].clone();
    assert_eq!(
        entries.as_object().unwrap().len(),
        2,
        "the repository and that the pass has ended: {entries}"
    );
    let state = State::new(CancellationToken::new());
    let found = left_behind::find(&cluster.context, &state).await.unwrap();
    left_behind::end(&cluster.context, &found).await;
    assert_eq!(snapshots(&cluster, "shop").await, if keeps { vec![own] } else { Vec::new() });
    assert_eq!(cluster.names("configmaps"), Vec::<String>::new());
}

#[tokio::test]
async fn the_journal_of_a_deleted_backup_stays_until_its_repository_can_be_used() {
    let cluster = cluster().await;
    let journal = Journal::of(cluster.context.client.clone(), "lifeboat", &BackupUid::new(UID));
    let (location, namespace) = (LocationName::new("gone"), NamespaceName::new("shop"));
    journal.note_repository(&RepositoryEntry { backup: "b".into(), location, namespace }).await.unwrap();
    let state = State::new(CancellationToken::new());
    let found = left_behind::find(&cluster.context, &state).await.unwrap();
    left_behind::end(&cluster.context, &found).await;
    assert_eq!(cluster.names("configmaps"), [format!("lifeboat-journal-{UID}")]);
}
