//! Backups with snapshots whose earlier attempt was interrupted.

use super::*;

const JOURNAL: &str = "/api/v1/namespaces/lifeboat/configmaps/lifeboat-journal-uid-b";

fn put_journal(server: &Server, status: &Value) {
    let entry = json!({"object": "vpb-x", "snapshot": {
        "spec": {"backupName": "b", "backupUID": "uid-b", "location": "disk", "persistentVolumeName": "pv-data",
            "providerVolumeID": "pv-data", "volumeType": "ssd"},
        "status": status}});
    let metadata = json!({"name": "lifeboat-journal-uid-b", "labels": {"lifeboat.io/journal": "backup"}});
    let data = json!({"snapshot.pv-data": entry.to_string()});
    server.world.put(JOURNAL, json!({"metadata": metadata, "data": data}));
}

fn interrupted(annotations: Value) -> Value {
    let mut all = annotations;
    all["lifeboat.io/attempt"] = "1".into();
    json!({"status": {"phase": "InProgress", "startTimestamp": "2026-01-01T00:00:00Z"}, "metadata": {"annotations": all}})
}

#[rstest]
#[case::known(json!({"providerSnapshotID": "snap-old", "phase": "Completed"}), json!(null), "snap-old", 0)]
#[case::known_by_its_object(json!({"phase": "New"}), json!({"snapshotID": "snap-obj"}), "snap-obj", 0)]
#[case::unknown(json!({"phase": "New"}), json!(null), "snap-pv-data", 1)]
#[tokio::test]
async fn a_second_attempt_takes_no_snapshot_twice(
    #[case] entry: Value,
    #[case] object: Value,
    #[case] expected: &str,
    #[case] warnings: usize,
) {
    let (server, snapshotter) = server(FakeSnapshotter::default()).await;
    put_journal(&server, &entry);
    if !object.is_null() {
        server
            .world
            .put(&format!("{OBJECTS}vpb-x"), json!({"metadata": {"name": "vpb-x"}, "status": object}));
    }
    let spec = json!({"includedNamespaces": ["shop"], "storageLocation": "default"});
    server.add("b", spec, &interrupted(json!({})));
    server.settle("b").await;
    let snapshots: Vec<NativeSnapshot> = stored(&server, "volumesnapshots.json.gz").await;
    assert_eq!(snapshots[0].status.provider_snapshot_id, expected);
    assert_eq!(calls(&snapshotter).len(), warnings, "the one that nobody knows of is taken again");
    assert_eq!(server.get("b")["status"]["warnings"].as_u64().unwrap_or_default(), warnings as u64);
}

#[tokio::test]
async fn a_snapshot_that_failed_in_an_earlier_attempt_stays_listed_behind_the_good_one() {
    let (server, _) = server(FakeSnapshotter::default()).await;
    put_journal(&server, &json!({"providerSnapshotID": "snap-old", "phase": "Completed"}));
    let status = json!({"snapshotID": "snap-old", "phase": "Failed", "message": "full"});
    server.world.put(&format!("{OBJECTS}vpb-x"), json!({"metadata": {"name": "vpb-x"}, "status": status}));
    let spec = json!({"includedNamespaces": ["shop"], "storageLocation": "default"});
    server.add("b", spec, &interrupted(json!({})));
    assert_eq!(server.settle("b").await, "Completed");
    let snapshots: Vec<NativeSnapshot> = stored(&server, "volumesnapshots.json.gz").await;
    let listed: Vec<_> = snapshots
        .iter()
        .map(|one| (one.status.provider_snapshot_id.as_str(), one.status.phase.as_str()))
        .collect();
    assert_eq!(listed, [("snap-pv-data", "Completed"), ("snap-old", "Failed")]);
    assert_eq!(server.get("b")["status"]["volumeSnapshotsAttempted"], 1);
}

#[rstest]
#[case::done(json!({"phase": "Completed", "snapshotID": "snap-own"}), "2026-01-01T00:01:00Z", "snap-own", "Completed", true)]
#[case::not_done(json!({"phase": "Uploading", "snapshotID": "snap-own"}), "2026-01-01T00:01:00Z", "snap-pv-data", "Failed", true)]
#[case::of_an_older_backup(json!({"phase": "Completed", "snapshotID": "snap-own"}), "2025-12-31T00:00:00Z", "snap-pv-data", "Completed", false)]
#[tokio::test]
async fn what_a_plugin_wrote_itself_tells_of_an_interrupted_call(
    #[case] status: Value,
    #[case] made: &str,
    #[case] expected: &str,
    #[case] phase: &str,
    #[case] adopted: bool,
) {
    let (server, snapshotter) = server(FakeSnapshotter::default()).await;
    put_journal(&server, &json!({"phase": "New"}));
    server.world.put(
        &format!("{OBJECTS}vpb-x"),
        json!({"metadata": {"name": "vpb-x", "labels": {"lifeboat.io/volume-plugin": "server"}},
            "status": {"phase": "InProgress"}}),
    );
    server.world.put(
        &format!("{OBJECTS}own"),
        json!({"metadata": {"name": "own", "uid": "uid-own", "creationTimestamp": made},
            "spec": {"backup": "b", "volume": "pv-data", "plugin": "example.com/fake"}, "status": status}),
    );
    let spec = json!({"includedNamespaces": ["shop"], "storageLocation": "default"});
    server.add("b", spec, &interrupted(json!({})));
    assert_eq!(server.settle("b").await, "Completed");
    let snapshots: Vec<NativeSnapshot> = stored(&server, "volumesnapshots.json.gz").await;
    assert_eq!(snapshots[0].status.provider_snapshot_id, expected);
    assert_eq!(calls(&snapshotter).is_empty(), expected == "snap-own");
    let own = server.world.get(&format!("{OBJECTS}own")).unwrap();
    assert_eq!(own["status"]["phase"], phase);
    assert_eq!(own["metadata"]["labels"]["velero.io/backup-uid"] == "uid-b", adopted, "{own}");
    if expected == "snap-own" {
        assert_eq!(server.world.paths(OBJECTS), [format!("{OBJECTS}own")], "one object for each snapshot");
    }
}

#[tokio::test]
async fn an_interrupted_backup_that_waits_in_vain_for_the_servers_disk_deletes_its_snapshots() {
    let (mut server, snapshotter) = server(FakeSnapshotter::default()).await;
    put_journal(&server, &json!({"providerSnapshotID": "snap-old", "phase": "Completed"}));
    let mut settings = crate::testing::settings();
    settings.storage.spool_directory = server.directory.path().join("gone");
    server.context.settings = Arc::new(settings);
    locked(&server.state.problem).insert("uid-b".to_owned(), Timestamp::UNIX_EPOCH);
    server.add("b", json!({"storageLocation": "default"}), &interrupted(json!({})));
    assert_eq!(server.settle("b").await, "Failed");
    assert_eq!(calls(&snapshotter), ["delete snap-old"]);
    assert_eq!(server.world.paths("lifeboat-journal"), Vec::<String>::new());
}

#[rstest]
#[case::completed(Some("Completed"), "", &[])]
#[case::partly(Some("PartiallyFailed"), "", &[])]
#[case::waits(Some("WaitingForPluginOperations"), "", &[])]
#[case::finalizing(Some("Finalizing"), "", &[])]
#[case::failed(Some("Failed"), "", &["delete snap-old"])]
#[case::gone_while_it_ran(None, "", &["delete snap-old"])]
#[case::gone_after_its_pass(None, "true", &[])]
#[tokio::test]
async fn a_journal_that_outlived_its_pass_costs_no_snapshot(
    #[case] phase: Option<&str>,
    #[case] passed: &str,
    #[case] expected: &[&str],
) {
    let (server, snapshotter) = server(FakeSnapshotter::default()).await;
    put_journal(&server, &json!({"providerSnapshotID": "snap-old", "phase": "Completed"}));
    if !passed.is_empty() {
        server.world.change(JOURNAL, &json!({"data": {"passed": passed}}));
    }
    if let Some(phase) = phase {
        server.add("b", json!({}), &json!({"status": {"phase": phase}}));
    }
    let found = left_behind::find(&server.context, &server.state).await.unwrap();
    assert_eq!(found.len(), 1);
    left_behind::end(&server.context, &found).await;
    assert_eq!(calls(&snapshotter), expected);
    assert_eq!(server.world.paths("lifeboat-journal"), Vec::<String>::new());
}

#[rstest]
#[case::deleted(json!({"providerSnapshotID": "snap-old", "phase": "Completed"}), &["delete snap-old"], "")]
#[case::unknown(json!({"phase": "New"}), &[], "may be left behind")]
#[tokio::test]
async fn a_backup_that_fails_leaves_no_snapshot_unnamed(
    #[case] entry: Value,
    #[case] expected: &[&str],
    #[case] message: &str,
) {
    let (server, snapshotter) = server(FakeSnapshotter::default()).await;
    put_journal(&server, &entry);
    let annotations = json!({"lifeboat.io/cancel": "true"});
    server.add("b", json!({"storageLocation": "default"}), &interrupted(annotations));
    assert_eq!(server.settle("b").await, "Failed");
    assert_eq!(calls(&snapshotter), expected);
    let reason = server.get("b")["status"]["failureReason"].as_str().unwrap().to_owned();
    assert!(reason.contains(message), "{reason}");
}

#[rstest]
#[case::deleted(FakeSnapshotter::default(), None)]
#[case::left(undeletable(), Some("snap-old"))]
#[tokio::test]
async fn the_files_of_a_backup_that_failed_list_the_snapshots_that_are_left(
    #[case] snapshotter: FakeSnapshotter,
    #[case] left: Option<&str>,
) {
    let (server, _) = server(snapshotter).await;
    put_journal(&server, &json!({"providerSnapshotID": "snap-old", "phase": "Completed"}));
    for file in ["volumesnapshots", "volumeinfo"] {
        let key = format!("backups/b/b-{file}.json.gz");
        let stale = lifeboat_archive::documents::encode(&json!([{"spec": {}}])).unwrap();
        ObjectStore::put(&server.store(), &key, stale).await.unwrap();
    }
    let annotations = json!({"lifeboat.io/cancel": "true"});
    server.add("b", json!({"storageLocation": "default"}), &interrupted(annotations));
    assert_eq!(server.settle("b").await, "Failed");
    let keys = ObjectStore::keys(&server.store(), "backups/b/").await.unwrap();
    assert!(!keys.iter().any(|key| key.contains("volumeinfo")), "{keys:?}");
    assert_eq!(keys.iter().any(|key| key.contains("volumesnapshots")), left.is_some(), "{keys:?}");
    if let Some(left) = left {
        let snapshots: Vec<NativeSnapshot> = stored(&server, "volumesnapshots.json.gz").await;
        assert_eq!(snapshots[0].status.provider_snapshot_id, left);
    }
}
