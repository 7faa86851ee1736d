//! Backups with volume snapshotters made of functions.

use lifeboat_archive::documents::{BackupVolumeInfo, NativeSnapshot, Results, decode, decode_list};
use lifeboat_plugin::ActionError;
use lifeboat_plugin::volume::VolumeProgress;

use super::*;
use crate::volume_plugin::tests::{FakeSnapshotter, bytes};

const JOURNAL: &str = "/api/v1/namespaces/lifeboat/configmaps/lifeboat-journal-uid-b";
const OBJECTS: &str = "/apis/velero.io/v1/namespaces/lifeboat/volumepluginbackups/";

fn add_location(server: &mut Server, name: &str, snapshotter: FakeSnapshotter) -> Arc<FakeSnapshotter> {
    let provider = format!("example.com/{name}");
    server.world.put(
        &format!("/apis/velero.io/v1/namespaces/lifeboat/volumesnapshotlocations/{name}"),
        json!({"apiVersion": "velero.io/v1", "kind": "VolumeSnapshotLocation",
            "metadata": {"name": name, "namespace": "lifeboat"}, "spec": {"provider": provider}}),
    );
    let snapshotter = Arc::new(snapshotter);
    server.context.snapshotters.insert(provider, snapshotter.clone());
    snapshotter
}

/// A server with a pod that has a volume, and a snapshotter for it.
async fn server(snapshotter: FakeSnapshotter) -> (Server, Arc<FakeSnapshotter>) {
    let mut server = Server::new().await;
    server.world.pod("shop", "db-1", &["data"], false);
    let snapshotter = add_location(&mut server, "disk", snapshotter);
    (server, snapshotter)
}

async fn stored<T: serde::de::DeserializeOwned>(server: &Server, file: &str) -> Vec<T> {
    let bytes = ObjectStore::get(&server.store(), &format!("backups/b/b-{file}"), 1 << 20).await.unwrap();
    decode_list(&bytes).unwrap()
}

async fn errors(server: &Server) -> String {
    let bytes = ObjectStore::get(&server.store(), "backups/b/b-results.gz", 1 << 20).await.unwrap();
    let results: Results = decode(&bytes).unwrap();
    results.errors.all().map(|(_, text)| text.to_owned()).collect::<Vec<_>>().join("\n")
}

fn calls(snapshotter: &FakeSnapshotter) -> Vec<String> {
    snapshotter.calls.lock().unwrap().clone()
}

fn failing(message: &'static str) -> FakeSnapshotter {
    FakeSnapshotter {
        create: Box::new(move |_| Err(ActionError::Failed(message.into()))),
        ..FakeSnapshotter::default()
    }
}

#[tokio::test]
async fn a_volume_is_snapshotted_and_in_all_files() {
    let (server, snapshotter) = server(FakeSnapshotter::default()).await;
    server.add(
        "b",
        json!({"includedNamespaces": ["shop"]}),
        &json!({"metadata": {"labels": {"team": "blue"}}}),
    );
    assert_eq!(server.settle("b").await, "Completed");
    assert_eq!(calls(&snapshotter), ["create pv-data"]);
    let status = server.get("b")["status"].clone();
    assert_eq!(
        (&status["volumeSnapshotsAttempted"], &status["volumeSnapshotsCompleted"]),
        (&json!(1), &json!(1))
    );
    let metrics = server.context.core.metrics.render();
    for line in [
        "velero_volume_snapshot_attempt_total{schedule=\"\"} 1",
        "velero_volume_snapshot_success_total{schedule=\"\"} 1",
        "velero_volume_snapshot_failure_total{schedule=\"\"} 0",
    ] {
        assert!(metrics.lines().any(|shown| shown == line), "{line} is not in\n{metrics}");
    }
    assert_eq!(server.get("b")["spec"]["volumeSnapshotLocations"], json!(["disk"]));
    let snapshots: Vec<Value> = stored(&server, "volumesnapshots.json.gz").await;
    let expected = json!([{
        "spec": {"backupName": "b", "backupUID": "uid-b", "location": "disk", "persistentVolumeName": "pv-data",
            "providerVolumeID": "pv-data", "volumeType": "ssd", "volumeIOPS": 100},
        "status": {"providerSnapshotID": "snap-pv-data", "phase": "Completed"},
    }]);
    assert_eq!(json!(snapshots), expected);
    let volumes: Vec<Value> = stored(&server, "volumeinfo.json.gz").await;
    assert_eq!(
        (&volumes[0]["backupMethod"], &volumes[0]["result"]),
        (&json!("NativeSnapshot"), &json!("succeeded"))
    );
    let native = json!({"snapshotHandle": "snap-pv-data", "volumeType": "ssd", "volumeAZ": "", "iops": "100",
        "Phase": "Completed"});
    assert_eq!(volumes[0]["nativeSnapshotInfo"], native);
    let objects: Vec<Value> = stored(&server, "volumepluginbackups.json.gz").await;
    assert_eq!((objects.len(), &objects[0]["status"]["phase"]), (1, &json!("Completed")));
    assert!(objects[0]["status"]["completionTimestamp"].is_string());
    assert_eq!(server.world.paths(OBJECTS).len(), 1);
    assert_eq!(server.world.paths("lifeboat-journal"), Vec::<String>::new());
}

#[tokio::test]
async fn a_snapshot_gets_the_tags_of_its_backup() {
    let seen = Arc::new(Mutex::new(None));
    let kept = seen.clone();
    let create = Box::new(move |request: &lifeboat_plugin::volume::SnapshotRequest| {
        *kept.lock().unwrap() = Some(request.clone());
        Ok("arn:Snap/1".to_owned())
    });
    let (server, _) = server(FakeSnapshotter { create, ..FakeSnapshotter::default() }).await;
    server.world.change(
        "/api/v1/persistentvolumes/pv-data",
        &json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "z1"}}}),
    );
    server.add(
        "b",
        json!({"includedNamespaces": ["shop"]}),
        &json!({"metadata": {"labels": {"team": "blue"}}}),
    );
    assert_eq!(server.settle("b").await, "Completed", "a name with odd characters is a name");
    let request = seen.lock().unwrap().clone().unwrap();
    assert_eq!(request.zone, "z1");
    assert_eq!(request.tags["team"], "blue");
    assert_eq!(
        (request.tags["velero.io/backup"].as_str(), request.tags["velero.io/pv"].as_str()),
        ("b", "pv-data")
    );
}

#[rstest]
#[case::error(failing("no quota"), "no quota")]
#[case::crash(failing("the plugin ended in the middle of the call"), "in the middle")]
#[case::empty(FakeSnapshotter { create: Box::new(|_| Ok(String::new())), ..FakeSnapshotter::default() }, "empty ID")]
#[case::hangs(FakeSnapshotter { hangs: true, ..FakeSnapshotter::default() }, "did not answer")]
#[case::info(FakeSnapshotter { info: Box::new(|_| Err(ActionError::Failed("no such disk".into()))), ..FakeSnapshotter::default() }, "no such disk")]
#[case::id(FakeSnapshotter { id: Box::new(|_| Err(ActionError::Failed("no answer".into()))), ..FakeSnapshotter::default() }, "no answer")]
#[tokio::test]
async fn a_snapshot_that_fails_touches_only_its_volume(
    #[case] snapshotter: FakeSnapshotter,
    #[case] message: &str,
) {
    let (server, _) = server(snapshotter).await;
    server.add("b", json!({"includedNamespaces": ["shop"], "itemOperationTimeout": "300ms"}), &json!({}));
    assert_eq!(server.settle("b").await, "PartiallyFailed");
    let reported = errors(&server).await;
    assert!(reported.contains(message) && reported.contains("pv-data"), "{reported}");
    assert_eq!(server.get("b")["status"]["errors"], 1, "{reported}");
    let names = archived(&server.store(), "backups/b/b.tar.gz").await;
    assert!(names.contains(&"persistentvolumes/cluster/pv-data".to_owned()), "{names:?}");
    assert!(names.contains(&"configmaps/namespaces/shop/settings".to_owned()), "{names:?}");
    for path in server.world.paths(OBJECTS) {
        assert_eq!(server.world.get(&path).unwrap()["status"]["phase"], "Failed");
    }
}

#[rstest]
#[case::nothing_said(json!({}), "Completed", true)]
#[case::asked_for(json!({"snapshotVolumes": true}), "PartiallyFailed", false)]
#[tokio::test]
async fn a_volume_that_no_snapshotter_knows_is_skipped_or_missed(
    #[case] spec: Value,
    #[case] phase: &str,
    #[case] skipped: bool,
) {
    let unknown = FakeSnapshotter { id: Box::new(|_| Ok(None)), ..FakeSnapshotter::default() };
    let (server, snapshotter) = server(unknown).await;
    server.add("b", spec, &json!({}));
    assert_eq!(server.settle("b").await, phase);
    assert_eq!(calls(&snapshotter), Vec::<String>::new());
    let volumes: Vec<BackupVolumeInfo> = stored(&server, "volumeinfo.json.gz").await;
    assert_eq!(volumes[0].skipped, skipped, "{volumes:?}");
    assert_eq!(errors(&server).await.contains("(disk) knows it"), !skipped);
}

#[rstest]
#[case::by_the_spec(json!({"snapshotVolumes": false}), json!({}))]
#[case::because_its_files_are_copied(json!({}), json!({"backup.velero.io/backup-volumes": "data"}))]
#[tokio::test]
async fn a_volume_that_is_not_wanted_is_not_snapshotted(#[case] spec: Value, #[case] annotations: Value) {
    let (server, snapshotter) = server(FakeSnapshotter::default()).await;
    server
        .world
        .change("/api/v1/namespaces/shop/pods/db-1", &json!({"metadata": {"annotations": annotations}}));
    server.add("b", spec, &json!({}));
    server.settle("b").await;
    assert_eq!(calls(&snapshotter), Vec::<String>::new());
}

#[rstest]
#[case(["disk", "other"])]
#[case(["other", "disk"])]
#[tokio::test]
async fn of_two_snapshotters_that_know_a_volume_the_first_location_wins(#[case] order: [&str; 2]) {
    let (mut server, disk) = server(FakeSnapshotter::default()).await;
    let other = add_location(&mut server, "other", FakeSnapshotter::default());
    server.add("b", json!({"volumeSnapshotLocations": order}), &json!({}));
    assert_eq!(server.settle("b").await, "Completed");
    let (first, second) = if order[0] == "disk" { (&disk, &other) } else { (&other, &disk) };
    assert_eq!((calls(first).len(), calls(second).len()), (1, 0));
}

#[allow(clippy::unnecessary_wraps)] // what a snapshotter answers
fn phase(word: &str) -> Result<Option<VolumeProgress>, ActionError> {
    Ok(Some(VolumeProgress { phase: word.into(), message: "said so".into(), ..VolumeProgress::default() }))
}

#[rstest]
#[case::well(phase("Completed"), "Completed", "Completed", 1)]
#[case::badly(phase("Failed"), "PartiallyFailed", "Failed", 0)]
#[tokio::test]
async fn a_backup_waits_for_a_snapshot_that_goes_on(
    #[case] end: Result<Option<VolumeProgress>, ActionError>,
    #[case] expected: &str,
    #[case] snapshot: &str,
    #[case] completed: usize,
) {
    let (server, snapshotter) = server(FakeSnapshotter::with_progress(vec![bytes(5, 10)])).await;
    server.add("b", json!({"includedNamespaces": ["shop"]}), &json!({}));
    assert_eq!(server.settle("b").await, "WaitingForPluginOperations");
    let path = &server.world.paths(OBJECTS)[0];
    assert_eq!(server.world.get(path).unwrap()["status"]["progress"]["bytesDone"], 5);
    // The object is deleted while the snapshot runs: it is created again.
    server.world.remove(path);
    assert_eq!(server.settle("b").await, "WaitingForPluginOperations");
    assert!(server.world.get(path).is_some());
    *snapshotter.progress.as_ref().unwrap().lock().unwrap() = [end].into();
    assert_eq!(server.settle("b").await, expected);
    assert_eq!(server.world.get(path).unwrap()["status"]["phase"], expected.replace("Partially", ""));
    let snapshots: Vec<NativeSnapshot> = stored(&server, "volumesnapshots.json.gz").await;
    assert_eq!(snapshots[0].status.phase, snapshot);
    let status = server.get("b")["status"].clone();
    assert_eq!(status["volumeSnapshotsCompleted"], completed);
    assert_eq!(errors(&server).await.contains("said so"), completed == 0);
}

#[rstest]
#[case::in_time("300ms", false, "did not end in time")]
#[case::without_its_plugin("4h", true, "does not exist")]
#[tokio::test]
async fn a_snapshot_that_nobody_ends_is_ended(
    #[case] limit: &str,
    #[case] gone: bool,
    #[case] message: &str,
) {
    let (server, _) = server(FakeSnapshotter::with_progress(vec![bytes(5, 10)])).await;
    server.add("b", json!({"includedNamespaces": ["shop"], "itemOperationTimeout": limit}), &json!({}));
    let mut phase = server.settle("b").await;
    if gone {
        assert_eq!(phase, "WaitingForPluginOperations");
        server.world.remove("/apis/velero.io/v1/namespaces/lifeboat/volumesnapshotlocations/disk");
        phase = server.settle("b").await;
    }
    // Times of objects are whole seconds.
    while phase == "WaitingForPluginOperations" {
        phase = server.settle("b").await;
    }
    assert_eq!(phase, "PartiallyFailed");
    let object = server.world.get(&server.world.paths(OBJECTS)[0]).unwrap();
    assert_eq!(object["status"]["phase"], "Failed");
    assert!(object["status"]["message"].as_str().unwrap().contains(message), "{object}");
    assert!(object["status"]["completionTimestamp"].is_string());
}

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

#[tokio::test]
async fn a_backup_that_storage_fails_at_last_shows_no_snapshot_as_running() {
    let (server, _) = server(FakeSnapshotter::with_progress(vec![bytes(5, 10)])).await;
    server.add("b", json!({"includedNamespaces": ["shop"]}), &json!({}));
    assert_eq!(server.settle("b").await, "WaitingForPluginOperations");
    server.world.remove("/apis/velero.io/v1/namespaces/lifeboat/backupstoragelocations/default");
    assert_eq!(server.settle("b").await, "Failed");
    let object = server.world.get(&server.world.paths(OBJECTS)[0]).unwrap();
    assert_eq!(object["status"]["phase"], "Failed", "{object}");
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

#[tokio::test]
async fn a_backup_without_the_plugin_of_its_location_says_that_volumes_are_missing() {
    let (mut server, _) = server(FakeSnapshotter::default()).await;
    server.context.snapshotters.clear();
    server.add("b", json!({"includedNamespaces": ["shop"]}), &json!({}));
    assert_eq!(server.settle("b").await, "PartiallyFailed");
    let reported = errors(&server).await;
    assert!(reported.contains("pv-data") && reported.contains("is installed"), "{reported}");
    assert_eq!(server.get("b")["status"]["errors"], 1, "{reported}");
}

fn undeletable() -> FakeSnapshotter {
    let delete = Box::new(|_: &str| Err(ActionError::Failed("it is in use".into())));
    FakeSnapshotter { delete, ..FakeSnapshotter::with_progress(vec![bytes(5, 10)]) }
}

#[rstest]
#[case::all_go(FakeSnapshotter::with_progress(vec![bytes(5, 10)]), true)]
#[case::one_stays(undeletable(), false)]
#[tokio::test]
async fn a_backup_that_is_deleted_while_its_snapshots_go_on_takes_them_along(
    #[case] snapshotter: FakeSnapshotter,
    #[case] all: bool,
) {
    let (server, snapshotter) = server(snapshotter).await;
    server.add("b", json!({"includedNamespaces": ["shop"]}), &json!({}));
    assert_eq!(server.settle("b").await, "WaitingForPluginOperations");
    deleted::follow(&server.state, &serde_json::from_value(server.get("b")).unwrap());
    server.world.remove(&format!("{BACKUPS}/b"));
    deleted::undo_deleted(&server.context, &server.state).await.unwrap();
    assert_eq!(calls(&snapshotter), ["create pv-data", "delete snap-pv-data"]);
    let keys = ObjectStore::keys(&server.store(), "").await.unwrap();
    assert_eq!(keys.is_empty(), all, "the list of what remains stays: {keys:?}");
}
