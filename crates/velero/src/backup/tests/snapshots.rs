//! Backups with volume snapshotters made of functions.

mod attempts;
mod order;

use lifeboat_archive::documents::{BackupVolumeInfo, NativeSnapshot, Results, decode, decode_list};
use lifeboat_plugin::ActionError;
use lifeboat_plugin::volume::VolumeProgress;

use super::*;
use crate::volume_plugin::tests::{FakeSnapshotter, bytes};

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

#[tokio::test]
async fn a_backup_says_what_a_snapshot_lacks_that_does_not_say_that_it_ended() {
    let mut server = Server::new().await;
    server.world.pod("shop", "db-1", &["data"], false);
    let world = server.world.clone();
    let create = Box::new(move |_: &lifeboat_plugin::volume::SnapshotRequest| {
        world.put(
            &format!("{OBJECTS}snap-pv-data"),
            json!({"metadata": {"name": "snap-pv-data"}, "spec": {"backup": "b", "volume": "pv-data"},
                "status": {"phase": "Succeeded", "snapshotID": "snap-pv-data"}}),
        );
        Ok("snap-pv-data".to_owned())
    });
    add_location(&mut server, "disk", FakeSnapshotter { create, ..FakeSnapshotter::default() });
    server.add("b", json!({"includedNamespaces": ["shop"]}), &json!({}));
    let shown = |server: &Server| server.get("b")["metadata"]["annotations"]["lifeboat.io/waiting"].clone();
    assert_eq!(server.settle("b").await, "WaitingForPluginOperations");
    let waits = shown(&server).as_str().unwrap().to_owned();
    for text in
        ["volumepluginbackups/snap-pv-data", "the plugin wrote phase", "Succeeded", "completionTimestamp"]
    {
        assert!(waits.contains(text), "{text:?} is missing in {waits}");
    }
    let end = json!({"status": {"completionTimestamp": "2026-01-01T00:00:00Z"}});
    server.world.change(&format!("{OBJECTS}snap-pv-data"), &end);
    assert_eq!(server.settle("b").await, "Completed");
    assert_eq!(shown(&server), Value::Null);
}
