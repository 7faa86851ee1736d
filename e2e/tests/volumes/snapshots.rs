//! Claims in CSI snapshots, and in snapshots whose data is moved into a repository.

use std::collections::BTreeMap;

use lifeboat_e2e::tree::Listing;
use lifeboat_e2e::{
    BrokenSnapshotClass, DataApp, Engine, Fault, HostServer, Namespace, OneVolume, VolumeName, Way, contents,
    get, kubectl, no_snapshot_is_left, wait_for,
};
use serde_json::Value;

fn assert_claims_same(app: &DataApp, before: &BTreeMap<VolumeName, Listing>, keeps: fn(Listing) -> Listing) {
    for (name, listing) in before.iter().filter(|((_, _, volume), _)| *volume == "data") {
        let found = keeps(contents(&app.directory(*name)));
        keeps(listing.clone()).assert_same(&found, &format!("{name:?}"));
    }
}

/// What the box's driver stores: its snapshots are tar files, without attributes and with whole seconds.
fn as_the_driver_keeps_it(mut listing: Listing) -> Listing {
    for entry in listing.0.values_mut() {
        entry.attributes.clear();
        entry.modified.1 = 0;
    }
    listing
}

#[test]
fn claims_come_back_from_their_snapshots_which_go_with_the_backup() {
    let server = HostServer::start("csi", &[]);
    let app = DataApp::start("shop");
    let before = app.fill();
    let backup = server.backup("snap", &["--include-namespaces", &app.namespace.name]);
    server.assert_phase(&backup, &["Completed"]);
    assert_eq!(backup["status"]["csiVolumeSnapshotsCompleted"], 3, "{backup}");
    app.delete();
    let restore = server.restore("back", "snap", &[]);
    server.assert_phase(&restore, &["Completed"]);
    app.wait_until_running();
    assert_claims_same(&app, &before, as_the_driver_keeps_it);

    // Into another namespace, beside the first one.
    let other = format!("{}-copy", app.namespace.name);
    let mapping = format!("{}:{other}", app.namespace.name);
    let restore = server.restore("copy", "snap", &["--namespace-mappings", &mapping]);
    server.assert_phase(&restore, &["Completed"]);
    wait_for("running pods in the other namespace", 120, || {
        let pods = get(&["-n", &other, "pods"]);
        let running = |pod: &&Value| pod["status"]["phase"] == "Running";
        let count = pods["items"].as_array().unwrap().iter().filter(running).count();
        if count == 3 { Ok(()) } else { Err(format!("{count} run")) }
    });
    let seen = kubectl().args(["-n", &other, "exec", "db-0", "-c", "main", "--", "cat", "/seen"]).ok();
    assert!(seen.contains("which"), "{seen}");
    kubectl().args(["delete", "namespace", &other, "--timeout=120s"]).ok();
    app.delete();
    server.lifeboat().args(["backup", "delete", "snap", "--confirm", "--wait"]).ok();
    no_snapshot_is_left(&server, &app.namespace.name);
}

#[test]
fn moved_snapshots_come_back_in_a_cluster_without_them() {
    let server = HostServer::start("moves", &[]);
    let app = DataApp::start("shop");
    let before = app.fill();
    let only = ["--include-namespaces", app.namespace.name.as_str(), "--snapshot-move-data"];
    let backup = server.backup("moved", &only);
    server.assert_phase(&backup, &["Completed"]);
    no_snapshot_is_left(&server, &app.namespace.name);
    server.no_mover_is_left();
    app.delete();
    let restore = server.restore("back", "moved", &[]);
    server.assert_phase(&restore, &["Completed"]);
    app.wait_until_running();
    assert_claims_same(&app, &before, as_the_driver_keeps_it);
    server.no_mover_is_left();
    let repository = server.repository(&app.namespace.name);
    repository.ok(Engine::Restic, &["check", "--read-data"]);
    let described = server.described("backup", "moved");
    assert!(described.contains("data-db-0") && described.contains("uploads"), "{described}");
    server.lifeboat().args(["backup", "delete", "moved", "--confirm", "--wait"]).ok();
    let left = repository.ok(Engine::Restic, &["snapshots", "--json"]);
    assert_eq!(left.trim(), "[]");
}

const BLOCK: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk}
spec: {accessModes: [ReadWriteOnce], volumeMode: Block, resources: {requests: {storage: 64Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: db}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: TEST_IMAGE
    imagePullPolicy: IfNotPresent
    command: [sleep, infinity]
    volumeDevices: [{name: disk, devicePath: /dev/disk}]
  volumes: [{name: disk, persistentVolumeClaim: {claimName: disk}}]
";

#[test]
fn a_block_volume_is_moved_and_comes_back_to_the_byte() {
    let server = HostServer::start("blocks", &[]);
    let app = Namespace::new("disks");
    app.apply(BLOCK);
    let ready = ["wait", "pod/db", "--for=condition=Ready", "--timeout=120s"];
    app.kubectl().args(ready).ok();
    let exec = |command: &str| app.kubectl().args(["exec", "db", "--", "sh", "-c", command]).ok();
    exec("head -c 5000000 /dev/urandom | dd of=/dev/disk bs=4096 seek=3000 conv=notrunc,fsync 2>&1");
    exec("echo begin | dd of=/dev/disk conv=notrunc,fsync 2>&1");
    let sum = exec("sha256sum < /dev/disk");
    let only = ["--include-namespaces", app.name.as_str(), "--snapshot-move-data"];
    let backup = server.backup("disk", &only);
    server.assert_phase(&backup, &["Completed"]);
    kubectl().args(["delete", "namespace", &app.name, "--timeout=120s"]).ok();
    let restore = server.restore("back", "disk", &[]);
    server.assert_phase(&restore, &["Completed"]);
    app.kubectl().args(ready).ok();
    assert_eq!(exec("sha256sum < /dev/disk"), sum);
    server.no_mover_is_left();
    // Holes use no space.
    let uploaded = get(&["-n", &server.namespace, "datauploads"])["items"][0].clone();
    let added = uploaded["status"]["incrementalBytes"].as_i64().unwrap_or(i64::MAX);
    assert!(added < 12_000_000, "{uploaded}");
}

#[test]
fn a_snapshot_that_cannot_be_taken_is_named_and_leaves_nothing() {
    let server = HostServer::start("csifault", &[]);
    let app = Namespace::new("data");
    let class = BrokenSnapshotClass::made();
    for (name, class) in [("never", class.name.as_str()), ("missing", "no-such-class")] {
        app.apply(&format!(
            "apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}, annotations: {{velero.io/csi-volumesnapshot-class: {class}}}}}
spec: {{accessModes: [ReadWriteOnce], storageClassName: box-csi-immediate, resources: {{requests: {{storage: 8Mi}}}}}}
"
        ));
    }
    wait_for("bound claims", 60, || {
        let claims = get(&["-n", &app.name, "pvc"]);
        let bound = |claim: &&Value| claim["status"]["phase"] == "Bound";
        let count = claims["items"].as_array().unwrap().iter().filter(bound).count();
        if count == 2 { Ok(()) } else { Err(claims["items"].to_string()) }
    });
    let only = ["--include-namespaces", app.name.as_str(), "--csi-snapshot-timeout", "15s"];
    let backup = server.backup("broken", &only);
    server.assert_phase(&backup, &["PartiallyFailed"]);
    let described = server.described("backup", "broken");
    for text in ["never", "missing", "no-such-class"] {
        assert!(described.contains(text), "{text} is not in\n{described}");
    }
    no_snapshot_is_left(&server, &app.name);
}

#[test]
fn a_server_of_another_namespace_leaves_the_snapshots_of_a_running_backup_alone() {
    let test = OneVolume::of(Way::Snapshot, "box-csi", "ReadWriteOnce", &[]);
    // The backup is held as soon as it has its snapshot.
    test.server.cluster.close("GET", "/volumesnapshotcontents/", Fault::Hold, 1000);
    test.begin("held");
    test.server.cluster.wait_until_reached(90);
    let snapshots = || get(&["-n", &test.app.name, "volumesnapshots"])["items"].as_array().cloned();
    let uid = snapshots().unwrap()[0]["metadata"]["uid"].clone();

    let other = HostServer::start("other", &[]);
    let empty = Namespace::new("empty");
    let backup = other.backup("own", &["--include-namespaces", &empty.name]);
    other.assert_phase(&backup, &["Completed"]);
    assert_eq!(snapshots().unwrap_or_default().first().map(|one| &one["metadata"]["uid"]), Some(&uid));

    test.server.cluster.open();
    let backup = test.server.ended("backup", "held");
    test.server.assert_phase(&backup, &["Completed"]);
    test.assert_nothing_is_left();
}
