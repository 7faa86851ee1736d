//! Whose files a deletion takes, and what a backup shows of which some are gone.

use lifeboat_archive::documents::CsiSnapshotInfo;

use super::*;

/// What storage has under the name: a good backup of another object.
async fn store_another(cluster: &Cluster) {
    let other = json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": "b", "uid": "other"},
        "spec": {}, "status": {"phase": "Completed", "startTimestamp": "2026-01-01T00:00:00Z"}});
    cluster.store().put("backups/b/velero-backup.json", other.to_string()).await.unwrap();
}

#[rstest]
#[case::claimed_here(json!({"metadata": {"annotations": {"lifeboat.io/attempt": "1"}},
    "status": {"startTimestamp": "2026-01-01T00:00:00Z"}}))]
#[case::never_began(json!({}))]
#[case::another_server_made_it(json!({"status": {"startTimestamp": "2026-01-02T00:00:00Z"}}))]
#[tokio::test]
async fn a_backup_whose_name_another_has_in_storage_goes_alone(#[case] change: Value) {
    let cluster = cluster("Failed").await;
    store_another(&cluster).await;
    cluster.change("backups", "b", &change);
    let before = keys(&cluster).await;
    assert_eq!(request(&cluster, "b", None).await, None);
    assert_eq!(keys(&cluster).await, before);
    assert_eq!(cluster.names("backups"), Vec::<String>::new());
    assert_eq!(cluster.names("restores"), ["r", "s"]);
}

#[tokio::test]
async fn a_backup_that_was_synced_goes_with_its_files() {
    let cluster = cluster("Completed").await;
    store_another(&cluster).await;
    cluster.change("backups", "b", &json!({"status": {"startTimestamp": "2026-01-01T00:00:00Z"}}));
    assert_eq!(request(&cluster, "b", None).await, None);
    assert_eq!(keys(&cluster).await, ["backups/other/velero-backup.json"]);
}

#[tokio::test]
async fn files_of_which_nobody_can_tell_whose_they_are_stay_and_are_named() {
    let cluster = cluster("Failed").await;
    cluster.store().put("backups/b/velero-backup.json", "{").await.unwrap();
    let before = keys(&cluster).await;
    let said = errors(request(&cluster, "b", None).await);
    assert!(said.contains("backups/b/velero-backup.json"), "{said}");
    assert_eq!(keys(&cluster).await, before);
    assert_eq!(cluster.get("backups", "b").unwrap()["status"]["phase"], "Failed");
}

#[tokio::test]
async fn a_backup_of_which_files_are_gone_never_shows_that_it_can_be_restored() {
    let cluster = cluster("Completed").await;
    let own = json!({"metadata": {"name": "b", "uid": "uid-b"}, "status": {"phase": "Completed"}});
    cluster.store().put("backups/b/velero-backup.json", own.to_string()).await.unwrap();
    cluster.change("backups", "b", &json!({"metadata": {"annotations": {"lifeboat.io/attempt": "1"}}}));
    let link = cluster.bucket().join("backups/b/link");
    std::os::unix::fs::symlink(cluster.bucket(), &link).unwrap();
    let said = errors(request(&cluster, "b", None).await);
    assert!(said.contains("remain"), "{said}");
    let status = cluster.get("backups", "b").unwrap()["status"].clone();
    assert_eq!(status["phase"], "Failed");
    assert!(status["failureReason"].as_str().unwrap_or_default().contains("partly deleted"), "{status}");
    std::fs::remove_file(link).unwrap();
    assert_eq!(request(&cluster, "b", None).await, None);
    assert_eq!(keys(&cluster).await, ["backups/other/velero-backup.json"]);
    assert_eq!(cluster.names("backups"), Vec::<String>::new());
}

#[tokio::test]
async fn a_request_for_an_object_that_had_the_name_before_deletes_nothing() {
    let cluster = cluster("Completed").await;
    let now = cluster.context.now().to_string();
    let metadata =
        json!({"name": "q", "creationTimestamp": now, "labels": {"velero.io/backup-uid": "uid-of-old"}});
    cluster.put(
        "deletebackuprequests",
        &json!({"apiVersion": "velero.io/v1", "kind": "DeleteBackupRequest", "metadata": metadata,
            "spec": {"backupName": "b"}}),
    );
    let said = errors(reconcile_stored(&cluster, None).await);
    assert!(said.contains("uid-of-old"), "{said}");
    assert_eq!(cluster.names("backups"), ["b"]);
    assert!(cluster.store().exists("backups/b/b.tar.gz").await.unwrap());
}

#[tokio::test]
async fn snapshots_of_csi_drivers_are_named_too() {
    let cluster = cluster("Completed").await;
    let csi =
        CsiSnapshotInfo { snapshot_handle: "csi-1".into(), driver: "d".into(), ..CsiSnapshotInfo::default() };
    let volume = BackupVolumeInfo {
        pvc_namespace: "shop".into(),
        pvc_name: "data".into(),
        csi_snapshot_info: Some(csi),
        ..BackupVolumeInfo::default()
    };
    put_volumes(&cluster, &[volume]).await;
    let said = errors(request(&cluster, "b", None).await);
    assert!(said.contains("csi-1") && said.contains("shop/data"), "{said}");
    assert_eq!(cluster.get("backups", "b").unwrap()["status"]["phase"], "Completed");
}
