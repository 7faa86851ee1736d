//! Syncs of a location in a directory with a cluster in memory.

mod hostile;

use lifeboat_archive::documents;
use lifeboat_plan::velero::ownership::{EXPIRATION_PROOF, Owned, OwnerId};
use lifeboat_store::Store;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::testing::Cluster;

fn backup(name: &str, phase: &str) -> Value {
    json!({
        "apiVersion": "velero.io/v1", "kind": "Backup",
        "metadata": {"name": name, "namespace": "elsewhere", "uid": "old", "labels": {"team": "blue"}},
        "spec": {"storageLocation": "elsewhere", "includedNamespaces": ["shop"]},
        "status": {"phase": phase},
    })
}

async fn store_backup(store: &Store, name: &str, phase: &str) {
    let files = BackupFiles::new(name).unwrap();
    store.put(&files.metadata(), backup(name, phase).to_string()).await.unwrap();
    store.put(&files.contents(), "x").await.unwrap();
}

/// One sync, as the controller does it: what is in the cluster is read first.
async fn synced(cluster: &Cluster, past: &mut Past) -> Result<(), SyncError> {
    let location = locations::open(&cluster.context, "default").await.unwrap();
    let names: BTreeSet<String> = cluster.names("backups").into_iter().collect();
    let in_cluster = InCluster { all: names.clone(), here: names };
    sync(&cluster.context, &location, &in_cluster, past).await
}

#[tokio::test]
async fn backups_of_the_bucket_come_into_the_cluster_once() {
    let cluster = Cluster::new().await;
    let store = cluster.store();
    for (name, phase) in [("one", "Completed"), ("two", "PartiallyFailed"), ("running", "Finalizing")] {
        store_backup(&store, name, phase).await;
    }
    store.put("backups/half/half.tar.gz", "x").await.unwrap();
    let mut past = Past::default();
    for _ in 0..2 {
        synced(&cluster, &mut past).await.unwrap();
        assert_eq!(cluster.names("backups"), ["one", "two"]);
    }
    let object = cluster.get("backups", "one").unwrap();
    assert_eq!(object["spec"]["storageLocation"], "default");
    assert_eq!(object["metadata"]["namespace"], "lifeboat");
    assert_eq!(
        object["metadata"]["labels"],
        json!({"team": "blue", "velero.io/storage-location": "default"})
    );
    assert_eq!(cluster.events(), Vec::<String>::new());
}

#[rstest]
#[tokio::test]
#[case::upstreams(BackupFiles::new("one").unwrap().pod_volume_backups())]
#[case::ours(BackupFiles::new("one").unwrap().volume_copies())]
async fn the_pod_volumes_of_a_backup_come_with_it(#[case] key: String) {
    let cluster = Cluster::new().await;
    store_backup(&cluster.store(), "one", "Completed").await;
    let volumes = json!([{"metadata": {"name": "one-abc"}, "spec": {"volume": "data"}, "status": {"phase": "Completed"}}]);
    cluster.store().put(&key, documents::encode(&volumes).unwrap()).await.unwrap();
    synced(&cluster, &mut Past::default()).await.unwrap();
    let (volume, backup) =
        (cluster.get("podvolumebackups", "one-abc").unwrap(), cluster.get("backups", "one").unwrap());
    assert!(backup["metadata"]["uid"].is_string());
    assert_eq!(volume["metadata"]["ownerReferences"][0]["uid"], backup["metadata"]["uid"]);
}

#[tokio::test]
async fn the_volume_snapshots_of_a_backup_come_with_it() {
    let cluster = Cluster::new().await;
    store_backup(&cluster.store(), "one", "Completed").await;
    let objects = json!([
        {"metadata": {"name": "snap-1", "labels": {"velero.io/backup-uid": "elsewhere"}},
            "spec": {"volume": "pv", "backup": "one"}, "status": {"phase": "COMPLETED", "progress": {"BytesDone": 7}}},
        {"metadata": {"name": "snap-2"}, "spec": {"volume": "pv2"}, "status": {"phase": "Uploading"}},
    ]);
    let key = BackupFiles::new("one").unwrap().volume_plugin_backups();
    cluster.store().put(&key, documents::encode(&objects).unwrap()).await.unwrap();
    synced(&cluster, &mut Past::default()).await.unwrap();
    assert_eq!(cluster.names("volumepluginbackups"), ["snap-1"], "nobody here would end the other");
    let object = cluster.get("volumepluginbackups", "snap-1").unwrap();
    assert_eq!(object["kind"], "VolumePluginBackup");
    let uid = &cluster.get("backups", "one").unwrap()["metadata"]["uid"];
    assert!(uid.is_string() && *uid != "old", "the cluster's own: {uid}");
    assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], *uid);
    assert_eq!(object["metadata"]["labels"]["velero.io/backup-uid"], *uid);
    assert_eq!(object["status"]["progress"]["BytesDone"], 7);
}

/// A backup with two snapshots that was synced.
async fn with_snapshots() -> (Cluster, Past) {
    let cluster = Cluster::new().await;
    let store = cluster.store();
    let files = BackupFiles::new("one").unwrap();
    let mut metadata = backup("one", "Completed");
    metadata["status"]["volumeSnapshotsAttempted"] = 2.into();
    store.put(&files.metadata(), metadata.to_string()).await.unwrap();
    let object = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {"volume": name, "backup": "one"},
        "status": {"phase": "Completed", "snapshotID": name}})
    };
    let objects = json!([object("snap-1"), object("snap-2")]);
    store.put(&files.volume_plugin_backups(), documents::encode(&objects).unwrap()).await.unwrap();
    let mut past = Past::default();
    synced(&cluster, &mut past).await.unwrap();
    assert_eq!(cluster.names("volumepluginbackups"), ["snap-1", "snap-2"]);
    (cluster, past)
}

#[tokio::test]
async fn volume_snapshots_that_a_synced_backup_lost_come_back() {
    let (cluster, mut past) = with_snapshots().await;
    let labels = cluster.get("volumepluginbackups", "snap-1").unwrap()["metadata"]["labels"].clone();
    assert_eq!(labels["velero.io/snapshot-id"], "snap-1");
    cluster.shared().remove("volumepluginbackups", "snap-1");
    synced(&cluster, &mut past).await.unwrap();
    assert_eq!(cluster.names("volumepluginbackups"), ["snap-1", "snap-2"]);
    // A server that ended before it created any, and its successor.
    for name in ["snap-1", "snap-2"] {
        cluster.shared().remove("volumepluginbackups", name);
    }
    synced(&cluster, &mut Past::default()).await.unwrap();
    assert_eq!(cluster.names("volumepluginbackups"), ["snap-1", "snap-2"]);
    let uid = cluster.get("backups", "one").unwrap()["metadata"]["uid"].clone();
    let object = cluster.get("volumepluginbackups", "snap-1").unwrap();
    assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], uid);
}

#[tokio::test]
async fn storage_is_not_read_again_for_snapshots_that_it_has_no_objects_of() {
    let (cluster, mut past) = with_snapshots().await;
    cluster.shared().remove("volumepluginbackups", "snap-2");
    let key = BackupFiles::new("one").unwrap().volume_plugin_backups();
    cluster.store().delete_many([key.as_str()]).await.unwrap();
    synced(&cluster, &mut past).await.unwrap();
    assert_eq!(past.repaired.get("one"), Some(&1));
    // What came later is not looked for until the number of objects changes or the server is another one.
    let late = json!([{"metadata": {"name": "late"}, "spec": {}, "status": {"phase": "Completed"}}]);
    cluster.store().put(&key, documents::encode(&late).unwrap()).await.unwrap();
    synced(&cluster, &mut past).await.unwrap();
    assert_eq!(cluster.names("volumepluginbackups"), ["snap-1"]);
}

#[tokio::test]
async fn a_backup_whose_objects_cannot_be_created_again_keeps_no_sync_from_its_end() {
    let (cluster, mut past) = with_snapshots().await;
    cluster.shared().remove("volumepluginbackups", "snap-1");
    let key = BackupFiles::new("one").unwrap().volume_plugin_backups();
    cluster.store().put(&key, "no gzip").await.unwrap();
    store_backup(&cluster.store(), "two", "Completed").await;
    synced(&cluster, &mut past).await.unwrap();
    assert_eq!(cluster.names("backups"), ["one", "two"]);
}

#[tokio::test]
async fn a_backup_whose_pod_volumes_cannot_be_read_comes_once_they_can() {
    let cluster = Cluster::new().await;
    store_backup(&cluster.store(), "one", "Completed").await;
    let key = BackupFiles::new("one").unwrap().pod_volume_backups();
    cluster.store().put(&key, "no gzip").await.unwrap();
    let mut past = Past::default();
    synced(&cluster, &mut past).await.unwrap();
    assert_eq!(cluster.names("backups"), Vec::<String>::new());
    let volumes = json!([{"metadata": {"name": "one-abc"}, "spec": {"volume": "data"}, "status": {"phase": "Completed"}}]);
    cluster.store().put(&key, documents::encode(&volumes).unwrap()).await.unwrap();
    synced(&cluster, &mut past).await.unwrap();
    assert_eq!(
        (cluster.names("backups"), cluster.names("podvolumebackups")),
        (vec!["one".into()], vec!["one-abc".into()])
    );
}

#[tokio::test]
async fn what_is_no_backup_is_told_once_and_keeps_no_other_out() {
    let cluster = Cluster::new().await;
    let store = cluster.store();
    store.put("backups/broken/velero-backup.json", "{").await.unwrap();
    store.put("backups/forged/velero-backup.json", backup("other", "Completed").to_string()).await.unwrap();
    store.put("backups/Bad_Name/velero-backup.json", "{}").await.unwrap();
    store_backup(&store, "good", "Completed").await;
    let mut past = Past::default();
    for _ in 0..3 {
        synced(&cluster, &mut past).await.unwrap();
    }
    assert_eq!(cluster.names("backups"), ["good"]);
    assert_eq!(cluster.events(), ["BackupNotSynced", "BackupNotSynced"]);
}

#[tokio::test]
async fn an_object_goes_only_after_two_listings_without_its_backup() {
    let cluster = Cluster::new().await;
    store_backup(&cluster.store(), "one", "Completed").await;
    let mut past = Past::default();
    synced(&cluster, &mut past).await.unwrap();
    let keys = ["backups/one/velero-backup.json", "backups/one/one.tar.gz"];
    cluster.store().delete_many(keys).await.unwrap();
    synced(&cluster, &mut past).await.unwrap();
    assert_eq!(cluster.names("backups"), ["one"]);
    synced(&cluster, &mut past).await.unwrap();
    assert_eq!(cluster.names("backups"), Vec::<String>::new());
    assert_eq!(cluster.events(), ["BackupGone"]);
}

#[tokio::test]
async fn objects_of_backups_that_run_or_failed_stay() {
    let cluster = Cluster::new().await;
    for (name, phase) in [("runs", "InProgress"), ("failed", "Failed"), ("moved", "Completed")] {
        cluster.put("backups", &backup(name, phase));
        cluster.change("backups", name, &json!({"spec": {"storageLocation": "default"}}));
    }
    cluster.change("backups", "moved", &json!({"spec": {"storageLocation": "other"}}));
    let mut past = Past::default();
    for _ in 0..4 {
        synced(&cluster, &mut past).await.unwrap();
    }
    assert_eq!(cluster.names("backups"), ["failed", "moved", "runs"]);
}

#[tokio::test]
async fn a_listing_that_fails_removes_nothing() {
    let cluster = Cluster::new().await;
    store_backup(&cluster.store(), "one", "Completed").await;
    let mut past = Past::default();
    synced(&cluster, &mut past).await.unwrap();
    let location = locations::open(&cluster.context, "default").await.unwrap();
    let (bucket, away) = (cluster.bucket(), cluster.bucket().with_extension("away"));
    std::fs::rename(&bucket, &away).unwrap();
    let here = BTreeSet::from(["one".to_owned()]);
    let in_cluster = InCluster { all: here.clone(), here };
    for _ in 0..4 {
        assert!(sync(&cluster.context, &location, &in_cluster, &mut past).await.is_err());
    }
    std::fs::rename(&away, &bucket).unwrap();
    assert_eq!(cluster.names("backups"), ["one"]);
}

#[tokio::test]
async fn an_object_of_a_volume_that_cannot_come_in_keeps_no_other_from_it() {
    let cluster = Cluster::new().await;
    store_backup(&cluster.store(), "one", "Completed").await;
    let object = |name: &str, labels: Value| {
        json!({"metadata": {"name": name, "labels": labels}, "spec": {},
        "status": {"phase": "Completed"}})
    };
    let listed = json!([object("odd", json!({"a": 1})), object("good", json!({}))]);
    let files = BackupFiles::new("one").unwrap();
    for key in [files.volume_plugin_backups(), files.pod_volume_backups()] {
        cluster.store().put(&key, documents::encode(&listed).unwrap()).await.unwrap();
    }
    synced(&cluster, &mut Past::default()).await.unwrap();
    assert_eq!(cluster.names("backups"), ["one"]);
    assert_eq!(cluster.names("volumepluginbackups"), ["good"]);
    assert_eq!(cluster.names("podvolumebackups"), ["good"]);
    assert_eq!(cluster.events(), ["BackupNotSynced"], "what did not come is told");
}

#[tokio::test]
async fn a_date_that_this_installation_stored_counts_in_every_cluster_with_its_password() {
    use crate::testing::repositories::{PASSWORD, prepare};
    let cluster = Cluster::new().await;
    prepare(&cluster, PASSWORD);
    let keys = crate::ownership::keys(&cluster.context).await.unwrap();
    let date = "2000-01-01T00:00:00Z";
    let owner = OwnerId { backup: "own", uid: "old" };
    let mut own = backup("own", "Completed");
    own["status"]["expiration"] = date.into();
    own["metadata"]["annotations"] =
        json!({EXPIRATION_PROOF: keys.proof(owner, Owned::Expiration(date)).unwrap()});
    cluster.store().put("backups/own/velero-backup.json", own.to_string()).await.unwrap();
    own["metadata"]["name"] = "copied".into();
    cluster.store().put("backups/copied/velero-backup.json", own.to_string()).await.unwrap();
    synced(&cluster, &mut Past::default()).await.unwrap();
    let expires = |name: &str| {
        lifeboat_plan::velero::garbage::has_expired(
            &cluster.get("backups", name).unwrap(),
            cluster.context.now(),
        )
    };
    assert!(expires("own"));
    assert!(!expires("copied"), "a proof is for one backup");
}
