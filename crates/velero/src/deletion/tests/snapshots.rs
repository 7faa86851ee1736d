//! Snapshots of volume plugins go before the files; what cannot be deleted keeps the backup.

use std::time::Duration;

use lifeboat_archive::documents::NativeSnapshot;

use super::*;
use crate::testing::volumes::{FakeSnapshotter, at_once, never};

fn snapshot(volume: &str, id: &str, location: &str) -> Value {
    json!({"spec": {"persistentVolumeName": volume, "location": location}, "status": {"providerSnapshotID": id}})
}

/// Stores the list of snapshots, with the proofs that a backup writes.
async fn put_snapshots(cluster: &Cluster, snapshots: &Value) {
    let (keys, owner) = owner(cluster).await;
    let listed: Vec<NativeSnapshot> = serde_json::from_value(snapshots.clone()).unwrap();
    let listed = crate::ownership::snapshots(&keys, owner, &listed);
    let key = BackupFiles::new("b").unwrap().volume_snapshots();
    cluster.store().put(&key, documents::encode(&listed).unwrap()).await.unwrap();
}

/// A backup with these snapshots, the location `cloud`, and its plugin if there is one.
async fn with_snapshots(snapshots: &Value, fake: Option<&FakeSnapshotter>) -> Cluster {
    let mut cluster = cluster("Completed").await;
    put_snapshots(&cluster, snapshots).await;
    cluster.put(
        "volumesnapshotlocations",
        &json!({"apiVersion": "velero.io/v1", "kind": "VolumeSnapshotLocation", "metadata": {"name": "cloud"},
            "spec": {"provider": "fake"}}),
    );
    if let Some(fake) = fake {
        cluster.context.snapshotters.insert("velero.io/fake".to_owned(), Arc::new(fake.clone()));
    }
    cluster
}

async fn stays(cluster: &Cluster) {
    assert_eq!(cluster.get("backups", "b").unwrap()["status"]["phase"], "Completed");
    assert!(cluster.store().exists("backups/b/velero-backup.json").await.unwrap());
}

#[tokio::test]
async fn snapshots_are_deleted_once_each_before_the_files() {
    let fake = FakeSnapshotter::default();
    let listed = json!([
        snapshot("a", "snap-1", "cloud"),
        snapshot("a", "snap-1", "cloud"),
        snapshot("b", "snap-2", "cloud"),
        snapshot("never made", "", "cloud")
    ]);
    let cluster = with_snapshots(&listed, Some(&fake)).await;
    assert_eq!(request(&cluster, "b", None).await, None);
    assert_eq!(fake.calls(), ["DeleteSnapshot snap-1", "DeleteSnapshot snap-2"]);
    assert_eq!(keys(&cluster).await, ["backups/other/velero-backup.json"]);
}

#[tokio::test]
async fn one_that_cannot_be_deleted_is_named_and_keeps_the_backup_and_the_others_go() {
    let refuse = at_once(|id: String| match id.as_str() {
        "snap-1" => Err(ActionError::Failed("it is in use".into())),
        _ => Ok(()),
    });
    let fake = FakeSnapshotter { delete_snapshot: Some(refuse), ..FakeSnapshotter::default() };
    let listed = json!([snapshot("disk", "snap-1", "cloud"), snapshot("b", "snap-2", "cloud")]);
    let cluster = with_snapshots(&listed, Some(&fake)).await;
    let said = errors(request(&cluster, "b", None).await);
    assert!(said.contains("'snap-1' of volume 'disk'") && said.contains("it is in use"), "{said}");
    assert!(!said.contains("snap-2"), "{said}");
    assert_eq!(fake.calls().len(), 2);
    assert!(cluster.store().exists("backups/b/velero-backup.json").await.unwrap());
    let status = cluster.get("backups", "b").unwrap()["status"].clone();
    assert_eq!(status["phase"], "PartiallyFailed", "one of its snapshots is gone");
    assert!(status["failureReason"].as_str().unwrap().contains("partly deleted"), "{status}");
}

#[tokio::test]
async fn what_keeps_the_backup_anyhow_keeps_its_snapshots_too() {
    let fake = FakeSnapshotter::default();
    let cluster = with_snapshots(&json!([snapshot("disk", "snap-1", "cloud")]), Some(&fake)).await;
    let key = BackupFiles::new("b").unwrap().pod_volume_backups();
    let copies =
        json!([{"spec": {"volume": "data", "uploaderType": "kopia"}, "status": {"snapshotID": "abc"}}]);
    cluster.store().put(&key, documents::encode(&copies).unwrap()).await.unwrap();
    let said = errors(request(&cluster, "b", None).await);
    assert!(said.contains("only Velero reads"), "{said}");
    assert_eq!(fake.calls(), Vec::<String>::new());
    stays(&cluster).await;
}

#[tokio::test]
async fn a_backup_that_was_cancelled_while_its_snapshots_went_on_takes_them_along() {
    let fake = FakeSnapshotter::default();
    let mut cluster = cluster("Failed").await;
    cluster.context.snapshotters.insert("velero.io/fake".to_owned(), Arc::new(fake.clone()));
    let files = BackupFiles::new("b").unwrap();
    // It was never finalized.
    cluster.store().delete(&files.metadata()).await.unwrap();
    put_snapshots(&cluster, &json!([snapshot("disk", "snap-1", "cloud")])).await;
    cluster.put(
        "volumesnapshotlocations",
        &json!({"apiVersion": "velero.io/v1", "kind": "VolumeSnapshotLocation", "metadata": {"name": "cloud"},
            "spec": {"provider": "fake"}}),
    );
    cluster.change("backups", "b", &json!({"metadata": {"annotations": {"lifeboat.io/attempt": "1"}}}));
    assert_eq!(request(&cluster, "b", None).await, None);
    assert_eq!(fake.calls(), ["DeleteSnapshot snap-1"]);
}

#[rstest]
#[case::no_plugin("cloud", "no VolumeSnapshotter plugin named 'velero.io/fake' is installed")]
#[case::no_location("elsewhere", "volume snapshot location 'elsewhere' does not exist")]
#[tokio::test]
async fn without_location_or_plugin_nothing_is_deleted(#[case] location: &str, #[case] message: &str) {
    let cluster = with_snapshots(&json!([snapshot("disk", "snap-1", location)]), None).await;
    let said = errors(request(&cluster, "b", None).await);
    assert!(said.contains(message) && said.contains("snap-1"), "{said}");
    stays(&cluster).await;
}

#[tokio::test]
async fn of_two_locations_one_that_is_gone_keeps_the_snapshots_of_both() {
    let fake = FakeSnapshotter::default();
    let listed = json!([snapshot("a", "snap-1", "cloud"), snapshot("b", "snap-2", "elsewhere")]);
    let cluster = with_snapshots(&listed, Some(&fake)).await;
    let said = errors(request(&cluster, "b", None).await);
    assert!(said.contains("snap-2") && !said.contains("snap-1"), "{said}");
    assert_eq!(fake.calls(), Vec::<String>::new());
    stays(&cluster).await;
}

#[tokio::test]
async fn a_plugin_that_hangs_is_left_after_its_time() {
    let fake = FakeSnapshotter { delete_snapshot: Some(never()), ..FakeSnapshotter::default() };
    let mut cluster = with_snapshots(&json!([snapshot("disk", "snap-1", "cloud")]), Some(&fake)).await;
    let mut settings = cluster.context.settings.as_ref().clone();
    settings.backup.defaults.resource_timeout = Duration::from_millis(20);
    cluster.context.settings = Arc::new(settings);
    let said = errors(request(&cluster, "b", None).await);
    assert!(said.contains("did not answer in time"), "{said}");
    stays(&cluster).await;
}

#[tokio::test]
async fn a_list_that_cannot_be_read_keeps_the_backup() {
    let cluster = with_snapshots(&json!([]), None).await;
    let key = BackupFiles::new("b").unwrap().volume_snapshots();
    cluster.store().put(&key, "garbage").await.unwrap();
    let said = errors(request(&cluster, "b", None).await);
    assert!(said.contains("volumesnapshots"), "{said}");
    stays(&cluster).await;
}

#[tokio::test]
async fn a_snapshot_that_only_the_volume_info_has_is_named() {
    let cluster = with_snapshots(&json!([]), None).await;
    let key = BackupFiles::new("b").unwrap().volume_info();
    let info = json!([{"pvName": "disk", "nativeSnapshotInfo": {"snapshotHandle": "snap-9"}}]);
    cluster.store().put(&key, documents::encode(&info).unwrap()).await.unwrap();
    let said = errors(request(&cluster, "b", None).await);
    assert!(said.contains("snap-9") && said.contains("in which location"), "{said}");
    stays(&cluster).await;
}
