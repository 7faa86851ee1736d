//! Backups of claims whose volumes are a CSI driver's, with a driver of a few lines.

mod moved;
mod orphans;
mod quiet;

use lifeboat_archive::documents::{Results, decode, decode_list};
use lifeboat_plan::transfer::snapshots::SERVER;
use lifeboat_plan::velero::csi::{OF_BACKUP, SNAPSHOT_NAME, snapshot_name};

use super::*;
use crate::backup::world::archived_object;
use crate::volume_plugin::tests::FakeSnapshotter;

const SNAPSHOTS: &str = "/apis/snapshot.storage.k8s.io/v1/namespaces/shop/volumesnapshots";
const CONTENTS: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents";

/// What the driver does with a new VolumeSnapshot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Driver {
    Ready,
    /// It takes the snapshot, which can be used later.
    Slow,
    Silent,
    Broken,
}

fn snapshot() -> String {
    snapshot_name("data", "uid-data", &BackupUid::new("uid-b"))
}

fn take(world: &World, path: &str, driver: Driver) {
    let name = path.rsplit('/').next().unwrap();
    match driver {
        Driver::Silent => {}
        Driver::Broken => {
            world.change(path, &json!({"status": {"error": {"message": "no room in the pool"}}}));
        }
        Driver::Ready | Driver::Slow => {
            let content = json!({
                "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
                "metadata": {"name": format!("content-{name}"), "creationTimestamp": "2026-11-16T01:00:00Z"},
                "spec": {"driver": "csi.example.com", "deletionPolicy": "Delete", "source": {"volumeHandle": "v"},
                    "volumeSnapshotRef": {"namespace": "shop", "name": name, "uid": "u"}},
                "status": {"snapshotHandle": "handle-1", "creationTime": 1, "restoreSize": 2_147_483_648_i64,
                    "readyToUse": driver == Driver::Ready},
            });
            world.put(&format!("{CONTENTS}/content-{name}"), content);
            let status = json!({"status": {"boundVolumeSnapshotContentName": format!("content-{name}")},
                "metadata": {"creationTimestamp": "2026-11-16T01:00:00Z"}});
            world.change(path, &status);
        }
    }
}

async fn server(driver: Driver, classes: &[&str]) -> Server {
    let server = Server::new().await;
    let world = &server.world;
    world.pod("shop", "db-1", &["data"], false);
    let claim = json!({"spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}});
    world.change("/api/v1/namespaces/shop/persistentvolumeclaims/data", &claim);
    let volume = json!({"spec": {"csi": {"driver": "csi.example.com", "volumeHandle": "v"},
        "persistentVolumeReclaimPolicy": "Delete"}});
    world.change("/api/v1/persistentvolumes/pv-data", &volume);
    for class in classes {
        world.add(
            "volumesnapshotclasses",
            "",
            class,
            json!({"driver": "csi.example.com", "deletionPolicy": "Delete"}),
        );
    }
    world.on_create(move |world, path| {
        if path.starts_with(SNAPSHOTS) {
            take(world, path, driver);
        }
    });
    server
}

fn spec() -> Value {
    json!({"includedNamespaces": ["shop"]})
}

fn created(server: &Server) -> usize {
    server.world.created().iter().filter(|path| path.starts_with(SNAPSHOTS)).count()
}

/// Snapshots and contents in the cluster.
fn left(server: &Server) -> Vec<String> {
    let mut left = server.world.paths(SNAPSHOTS);
    left.extend(server.world.paths(CONTENTS));
    left
}

async fn volumes(server: &Server) -> Vec<Value> {
    let bytes = ObjectStore::get(&server.store(), "backups/b/b-volumeinfo.json.gz", 1 << 20).await.unwrap();
    decode_list(&bytes).unwrap()
}

async fn errors(server: &Server) -> String {
    let bytes = ObjectStore::get(&server.store(), "backups/b/b-results.gz", 1 << 20).await.unwrap();
    let results: Results = decode(&bytes).unwrap();
    results.errors.all().map(|(_, text)| text.to_owned()).collect::<Vec<_>>().join("\n")
}

/// What the metrics of CSI snapshots show of the backup.
fn counted(server: &Server) -> Vec<String> {
    let text = server.context.core.metrics.render();
    let shown = |line: &str| {
        let (step, count) = line
            .strip_prefix("velero_csi_snapshot_")?
            .split_once("_total{schedule=\"\",backupName=\"b\"}")?;
        Some(format!("{step}{count}"))
    };
    let mut counts: Vec<String> = text.lines().filter_map(shown).collect();
    counts.sort();
    counts
}

async fn archived_claim(server: &Server) -> Value {
    let path = "persistentvolumeclaims/namespaces/shop/data";
    archived_object(&server.store(), "backups/b/b.tar.gz", path).await.unwrap()
}

#[tokio::test]
async fn a_claim_is_snapshotted_once_and_only_the_driver_keeps_the_snapshot() {
    let server = server(Driver::Ready, &["fast"]).await;
    server.add("b", spec(), &json!({}));
    assert_eq!(server.settle("b").await, "Completed", "{}", errors(&server).await);
    assert_eq!((created(&server), left(&server)), (1, Vec::new()));
    let status = server.get("b")["status"].clone();
    assert_eq!(status["csiVolumeSnapshotsAttempted"], 1, "{status}");
    assert_eq!(status["csiVolumeSnapshotsCompleted"], 1, "{status}");
    assert_eq!(counted(&server), ["attempt 1", "failure 0", "success 1"]);
    let claim = archived_claim(&server).await;
    assert_eq!(claim["metadata"]["annotations"][SNAPSHOT_NAME], *snapshot());
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "2Gi", "as large as the snapshot");
    let store = server.store();
    let kept = format!("volumesnapshots.snapshot.storage.k8s.io/namespaces/shop/{}", snapshot());
    let kept = archived_object(&store, "backups/b/b.tar.gz", &kept).await.unwrap();
    let notes = &kept["metadata"]["annotations"];
    assert_eq!(notes["velero.io/csi-volumesnapshot-handle"], "handle-1");
    assert_eq!(notes["velero.io/csi-driver-name"], "csi.example.com");
    assert_eq!(notes["velero.io/csi-vsc-deletion-policy"], "Delete");
    let content = format!("volumesnapshotcontents.snapshot.storage.k8s.io/cluster/content-{}", snapshot());
    let content = archived_object(&store, "backups/b/b.tar.gz", &content).await.unwrap();
    assert_eq!(content["metadata"]["labels"]["velero.io/backup-name"], "b");
    let names = archived(&store, "backups/b/b.tar.gz").await;
    assert!(
        names.contains(&"volumesnapshotclasses.snapshot.storage.k8s.io/cluster/fast".to_owned()),
        "{names:?}"
    );
    let volume = volumes(&server).await.remove(0);
    assert_eq!((&volume["backupMethod"], &volume["result"]), (&json!("CSISnapshot"), &json!("succeeded")));
    let info = json!({"snapshotHandle": "handle-1", "size": 2_147_483_648_i64, "driver": "csi.example.com",
        "vscName": format!("content-{}", snapshot()), "ReadyToUse": true});
    assert_eq!(volume["csiSnapshotInfo"], info);
    assert_eq!(volume["consistency"], "Snapshot");
}

#[rstest]
#[case::snapshot(json!({}))]
#[case::moved(json!({"snapshotMoveData": true}))]
#[tokio::test]
async fn a_snapshot_that_is_taken_between_hooks_is_quiesced(#[case] more: Value) {
    let server = server(Driver::Ready, &["fast"]).await;
    let hooks =
        json!({"pre.hook.backup.velero.io/command": "pre", "post.hook.backup.velero.io/command": "post"});
    server.world.change("/api/v1/namespaces/shop/pods/db-1", &json!({"metadata": {"annotations": hooks}}));
    let mut spec = spec();
    crate::testing::merge(&mut spec, &more);
    server.add("b", spec, &json!({}));
    server.settle("b").await;
    assert!(server.world.ran().contains(&"pre db-1".to_owned()), "{:?}", server.world.ran());
    assert_eq!(volumes(&server).await[0]["consistency"], "Quiesced");
}

#[tokio::test]
async fn a_snapshot_of_an_interrupted_attempt_is_taken_over() {
    let server = server(Driver::Ready, &["fast"]).await;
    let object = json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": {"name": snapshot(), "namespace": "shop", "labels": {OF_BACKUP: "uid-b", SERVER: "lifeboat", "velero.io/backup-name": "b"}},
        "spec": {"source": {"persistentVolumeClaimName": "data"}, "volumeSnapshotClassName": "fast"}});
    let path = format!("{SNAPSHOTS}/{}", snapshot());
    server.world.put(&path, object);
    take(&server.world, &path, Driver::Ready);
    // A snapshot of a claim that is gone in the meantime.
    let stale = json!({"metadata": {"name": "stale", "namespace": "shop", "labels": {OF_BACKUP: "uid-b", SERVER: "lifeboat"}}});
    server.world.put(&format!("{SNAPSHOTS}/stale"), stale);
    let begun =
        json!({"status": {"phase": "InProgress"}, "metadata": {"annotations": {"lifeboat.io/attempt": "1"}}});
    server.add("b", spec(), &begun);
    assert_eq!(server.settle("b").await, "Completed");
    assert_eq!((created(&server), left(&server)), (0, Vec::new()));
    assert_eq!(volumes(&server).await[0]["csiSnapshotInfo"]["snapshotHandle"], "handle-1");
}

#[rstest]
#[case::no_class(Driver::Ready, &[], "no VolumeSnapshotClass is for driver csi.example.com")]
#[case::several(Driver::Ready, &["a", "b"], "several VolumeSnapshotClasses are for driver csi.example.com (a, b)")]
#[case::never_taken(Driver::Silent, &["a"], "no snapshot controller has bound it")]
#[case::refused(Driver::Broken, &["a"], "no room in the pool (VolumeSnapshotClass a, driver csi.example.com)")]
#[tokio::test]
async fn a_snapshot_that_cannot_be_taken_is_an_error_and_leaves_nothing(
    #[case] driver: Driver,
    #[case] classes: &[&str],
    #[case] message: &str,
) {
    let server = server(driver, classes).await;
    server.add("b", json!({"includedNamespaces": ["shop"], "csiSnapshotTimeout": "1ms"}), &json!({}));
    assert_eq!(server.settle("b").await, "PartiallyFailed");
    let said = errors(&server).await;
    assert!(said.contains("shop/data") && said.contains(message), "{said}");
    assert_eq!(left(&server), Vec::<String>::new());
    let claim = archived_claim(&server).await;
    assert!(claim["metadata"]["annotations"].get(SNAPSHOT_NAME).is_none(), "the claim is kept without it");
    let volume = volumes(&server).await.remove(0);
    assert_eq!((&volume["backupMethod"], &volume["result"]), (&json!("CSISnapshot"), &json!("failed")));
    assert!(server.get("b")["status"].get("csiVolumeSnapshotsCompleted").is_none());
    assert_eq!(counted(&server), ["attempt 1", "failure 1", "success 0"]);
}

#[tokio::test]
async fn a_snapshot_that_is_not_ready_is_waited_for_in_the_background() {
    let server = server(Driver::Slow, &["fast"]).await;
    server.add("b", spec(), &json!({}));
    assert_eq!(server.settle("b").await, "WaitingForPluginOperations");
    let content = format!("{CONTENTS}/content-{}", snapshot());
    assert_eq!(server.world.get(&content).unwrap()["spec"]["deletionPolicy"], "Retain");
    assert_eq!(volumes(&server).await[0]["csiSnapshotInfo"]["ReadyToUse"], false);
    server.world.change(&content, &json!({"status": {"readyToUse": true}}));
    assert_eq!(server.settle("b").await, "Completed");
    assert_eq!(left(&server), Vec::<String>::new());
    let volume = volumes(&server).await.remove(0);
    assert_eq!(
        (&volume["csiSnapshotInfo"]["ReadyToUse"], &volume["result"]),
        (&json!(true), &json!("succeeded"))
    );
    assert_eq!(server.get("b")["status"]["csiVolumeSnapshotsCompleted"], 1);
    let kept = format!("volumesnapshotcontents.snapshot.storage.k8s.io/cluster/content-{}", snapshot());
    let kept = archived_object(&server.store(), "backups/b/b.tar.gz", &kept).await.unwrap();
    assert_eq!(kept["status"]["readyToUse"], true, "the archive has it as it became");
}

#[tokio::test]
async fn a_snapshot_that_is_never_ready_fails_and_goes() {
    let server = server(Driver::Slow, &["fast"]).await;
    server.add("b", json!({"includedNamespaces": ["shop"], "itemOperationTimeout": "1h"}), &json!({}));
    assert_eq!(server.settle("b").await, "WaitingForPluginOperations");
    // It began long ago.
    let key = "backups/b/b-itemoperations.json.gz";
    let mut operations: Vec<lifeboat_archive::documents::BackupOperation> =
        decode_list(&ObjectStore::get(&server.store(), key, 1 << 20).await.unwrap()).unwrap();
    operations[0].status.created = Some(lifeboat_api::common::Time(jiff::Timestamp::UNIX_EPOCH));
    let document = lifeboat_archive::documents::encode(&operations).unwrap();
    ObjectStore::put(&server.store(), key, document).await.unwrap();
    assert_eq!(server.settle("b").await, "PartiallyFailed");
    assert_eq!(left(&server), Vec::<String>::new());
    assert_eq!(volumes(&server).await[0]["result"], "failed");
    let said = errors(&server).await;
    assert!(said.contains("claim shop/data") && said.contains("did not end in time"), "{said}");
}

#[tokio::test]
async fn a_backup_that_is_cancelled_while_it_waits_leaves_no_snapshot() {
    let server = server(Driver::Slow, &["fast"]).await;
    server.add("b", spec(), &json!({}));
    assert_eq!(server.settle("b").await, "WaitingForPluginOperations");
    server.world.change(
        &format!("{BACKUPS}/b"),
        &json!({"metadata": {"annotations": {"lifeboat.io/cancel": "true"}}}),
    );
    assert_eq!(server.settle("b").await, "Failed");
    assert_eq!(left(&server), Vec::<String>::new());
}

#[tokio::test]
async fn a_backup_that_fails_leaves_no_snapshot() {
    let server = server(Driver::Ready, &["fast"]).await;
    server.add("b", spec(), &json!({}));
    let directory = server.directory.path().join("bucket");
    // The archive cannot be written any more.
    let hook = directory.clone();
    server.world.on_create(move |world, path| {
        if path.starts_with(SNAPSHOTS) {
            take(world, path, Driver::Ready);
            std::fs::remove_dir_all(&hook).ok();
            std::fs::write(&hook, "no directory").unwrap();
        }
    });
    assert_eq!(server.settle("b").await, "Failed");
    assert_eq!((created(&server), left(&server)), (1, Vec::new()));
}

#[rstest]
#[case::told_not_to(json!({"snapshotVolumes": false}), json!({}), 0)]
#[case::files_are_copied(json!({"defaultVolumesToFsBackup": true}), json!({}), 0)]
#[case::the_pod_opts_in(json!({}), json!({"metadata": {"annotations": {"backup.velero.io/backup-volumes": "data"}}}), 0)]
#[case::told_to(json!({"snapshotVolumes": true}), json!({}), 1)]
#[tokio::test]
async fn a_claim_whose_data_goes_another_way_is_not_snapshotted(
    #[case] more: Value,
    #[case] pod: Value,
    #[case] expected: usize,
) {
    let server = server(Driver::Ready, &["fast"]).await;
    server.world.change("/api/v1/namespaces/shop/pods/db-1", &pod);
    let mut spec = spec();
    crate::testing::merge(&mut spec, &more);
    server.add("b", spec, &json!({}));
    server.settle("b").await;
    assert_eq!(created(&server), expected);
}

#[rstest]
#[case::with_a_class(&["fast"], 1, 0)]
#[case::without(&[], 0, 1)]
#[tokio::test]
async fn volume_snapshotters_take_what_the_driver_does_not(
    #[case] classes: &[&str],
    #[case] by_driver: usize,
    #[case] by_snapshotter: usize,
) {
    let mut server = server(Driver::Ready, classes).await;
    server.world.put(
        "/apis/velero.io/v1/namespaces/lifeboat/volumesnapshotlocations/disk",
        json!({"apiVersion": "velero.io/v1", "kind": "VolumeSnapshotLocation",
            "metadata": {"name": "disk", "namespace": "lifeboat"}, "spec": {"provider": "example.com/disk"}}),
    );
    let snapshotter = Arc::new(FakeSnapshotter::default());
    server.context.snapshotters.insert("example.com/disk".to_owned(), snapshotter.clone());
    server.add("b", spec(), &json!({}));
    assert_eq!(server.settle("b").await, "Completed");
    assert_eq!((created(&server), snapshotter.calls.lock().unwrap().len()), (by_driver, by_snapshotter));
}

#[rstest]
#[case::once(Some(1), "Completed", 1)]
#[case::always(None, "PartiallyFailed", 0)]
#[tokio::test]
async fn an_api_server_that_does_not_tell_is_asked_again_and_never_means_no_snapshot(
    #[case] request: Option<usize>,
    #[case] phase: &str,
    #[case] taken: usize,
) {
    let server = server(Driver::Ready, &["fast"]).await;
    match request {
        Some(request) => server.world.break_request(CONTENTS, request, 500),
        None => server.world.break_list(CONTENTS, 500),
    }
    server.add("b", spec(), &json!({}));
    assert_eq!(server.settle("b").await, phase);
    assert_eq!(created(&server), taken);
    if taken == 0 {
        let said = errors(&server).await;
        assert!(said.contains("cannot read the cluster's snapshot classes"), "{said}");
        assert_eq!(volumes(&server).await[0]["result"], "failed");
    }
}
