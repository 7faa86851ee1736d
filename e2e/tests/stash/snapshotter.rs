//! Driver VolumeSnapshotter: VolumeSnapshots of claims by the box's CSI driver, their retention, and claims made from them.

use std::fs;
use std::path::Path;

use lifeboat_e2e::tree::Listing;
use lifeboat_e2e::{RESTORE_SESSIONS, StashTest, condition, contents, get, volume_directory, wait_for};
use serde_json::Value;

use super::workloads::{put_deployment, put_stateful_set};

const CONFIGURATION: &str = "BackupConfiguration";
/// The class that makes volumes at once.
const IMMEDIATE: &str = "box-csi-immediate";
/// The class that makes volumes for pods.
const LATE: &str = "box-csi";

/// A BackupConfiguration `snapshots` without a Repository; the two newest snapshots of each claim are kept.
fn put_snapshotter(test: &StashTest, kind: &str, name: &str) {
    test.tenant.apply(&format!(
        "apiVersion: stash.appscode.com/v1beta1
kind: BackupConfiguration
metadata: {{name: snapshots}}
spec:
  driver: VolumeSnapshotter
  schedule: '0 3 1 1 *'
  backupHistoryLimit: 20
  retentionPolicy: {{name: keep, keepLast: 2, prune: false}}
  target: {{ref: {{apiVersion: apps/v1, kind: {kind}, name: {name}}}}}
"
    ));
}

/// A restore into claims `NAME-0`, … of a class, each from the newest snapshot of a source claim.
fn put_restore(test: &StashTest, name: &str, class: &str, replicas: u32, source: &str) {
    test.tenant.apply(&format!(
        "apiVersion: stash.appscode.com/v1beta1
kind: RestoreSession
metadata: {{name: {name}}}
spec:
  driver: VolumeSnapshotter
  target:
    replicas: {replicas}
    volumeClaimTemplates:
    - metadata: {{name: '{name}-${{POD_ORDINAL}}'}}
      spec: {{accessModes: [ReadWriteOnce], storageClassName: {class}, resources: {{requests: {{storage: 16Mi}}}}}}
    rules: [{{sourceHost: '{source}'}}]
"
    ));
}

/// Waits until a restore is in a phase that is an end; gives it.
fn ended(test: &StashTest, name: &str, phase: &str) -> Value {
    let found = wait_for(&format!("the end of restore {name}"), 240, || {
        let found = test.restore_now(RESTORE_SESSIONS, name);
        match found["status"]["phase"].as_str() {
            Some("Succeeded" | "Failed" | "Invalid" | "Unknown") => Ok(found),
            _ => Err(found["status"].to_string()),
        }
    });
    assert_eq!(found["status"]["phase"], phase, "{:#}", found["status"]);
    found
}

/// The VolumeSnapshots of a claim, by name.
fn snapshots(test: &StashTest, claim: &str) -> Vec<String> {
    let list = get(&["-n", &test.tenant.name, "volumesnapshots.snapshot.storage.k8s.io"]);
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let of_claim = items.iter().filter(|one| {
        one["spec"]["source"]["persistentVolumeClaimName"] == claim
            && one["metadata"]["deletionTimestamp"].is_null()
    });
    let mut names: Vec<String> =
        of_claim.map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

fn hosts(session: &Value) -> Vec<(String, String)> {
    let stats = session["status"]["targets"][0]["stats"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    stats.iter().map(|host| (text(&host["hostname"]), text(&host["snapshots"][0]["name"]))).collect()
}

/// A pod that mounts a claim; gives the content of the volume.
fn read(test: &StashTest, claim: &str) -> Listing {
    let pod = format!("reader-{claim}");
    test.tenant.apply(&format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: {pod}}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {{name: main, image: TEST_IMAGE, imagePullPolicy: IfNotPresent, command: [sleep, infinity], volumeMounts: [{{name: data, mountPath: /d}}]}}
  volumes: [{{name: data, persistentVolumeClaim: {{claimName: {claim}}}}}]
"
    ));
    test.kubectl().args(["wait", "--for=condition=Ready", "pod", &pod, "--timeout=120s"]).ok();
    contents(&volume_directory(&get(&["-n", &test.tenant.name, "pods", &pod]), "data"))
}

/// Snapshots of the box's driver are tar files, which lose attributes and fractions of seconds; the root of a volume is its driver's.
fn as_in_tar(listing: &Listing) -> Listing {
    let mut listing = listing.clone();
    listing.0.remove(Path::new(""));
    for entry in listing.0.values_mut() {
        entry.attributes.clear();
        entry.modified.1 = 0;
    }
    listing
}

fn assert_restored(before: &Listing, found: &Listing, what: &str) {
    as_in_tar(before).assert_same(&as_in_tar(found), what);
}

#[test]
fn a_deployment_comes_back_from_its_snapshot_in_a_new_claim() {
    let test = StashTest::start();
    let before = put_deployment(&test, "web");
    put_snapshotter(&test, "Deployment", "web");
    let session = test.run(CONFIGURATION, "snapshots", "Succeeded");
    let taken = hosts(&session);
    assert_eq!(taken.len(), 1, "{session}");
    assert_eq!((taken[0].0.as_str(), vec![taken[0].1.clone()]), ("web", snapshots(&test, "web")));
    assert_eq!(session["status"]["targets"][0]["stats"][0]["consistency"], "Snapshot");
    // What is written afterwards is not in the snapshot.
    fs::write(test.directory("web", 0, "data").join("which"), "changed").unwrap();
    fs::write(test.directory("web", 0, "data").join("later"), "later").unwrap();

    put_restore(&test, "copy", IMMEDIATE, 1, "web");
    let back = ended(&test, "copy", "Succeeded");
    assert_eq!(back["status"]["stats"][0]["paths"][0]["snapshot"], *taken[0].1);
    assert_restored(&before, &read(&test, "copy-0"), "a claim that was made at once");

    // A class that makes volumes for pods: the restore ends, and the data comes with the pod.
    put_restore(&test, "late", LATE, 1, "web");
    let late = ended(&test, "late", "Unknown");
    let (status, message) = condition(&late, "ClaimsAwaitPods");
    assert!(status == "True" && message.contains("late-0"), "{:#}", late["status"]);
    assert_restored(&before, &read(&test, "late-0"), "a claim that waited for its pod");

    // A second restore does not touch what is there.
    test.delete(&[RESTORE_SESSIONS, "copy"]);
    put_restore(&test, "copy", IMMEDIATE, 1, "web");
    let refused = ended(&test, "copy", "Failed");
    assert!(
        condition(&refused, "RestoreExecutorEnsured").1.contains("PersistentVolumeClaim copy-0 exists"),
        "{refused}"
    );
}

#[test]
fn a_stateful_set_keeps_two_snapshots_of_each_claim_and_comes_back_ordinal_by_ordinal() {
    let test = StashTest::start();
    put_stateful_set(&test, "db");
    put_snapshotter(&test, "StatefulSet", "db");
    let first = hosts(&test.run(CONFIGURATION, "snapshots", "Succeeded"));
    let claims: Vec<&str> = first.iter().map(|(claim, _)| claim.as_str()).collect();
    assert_eq!(claims, ["data-db-0", "data-db-1"]);
    let mut last = Vec::new();
    for round in ["second", "third"] {
        for number in 0..2 {
            fs::write(test.directory("db", number, "data").join("which"), format!("{round} {number}"))
                .unwrap();
        }
        last.clear();
        last.extend((0..2).map(|number| contents(&test.directory("db", number, "data"))));
        let session = test.run(CONFIGURATION, "snapshots", "Succeeded");
        assert_eq!(condition(&session, "RetentionPolicyApplied").0, "True", "{session}");
    }
    for (claim, oldest) in &first {
        let left = snapshots(&test, claim);
        assert!(left.len() == 2 && !left.contains(oldest), "{claim}: {left:?}");
    }
    // The data outlives the app, its sessions and the object that took it.
    test.delete(&["backupsessions.stash.appscode.com", "--all"]);
    test.delete(&["backupconfiguration", "snapshots"]);
    test.delete(&["statefulset", "db"]);
    test.delete(&["pvc", "data-db-0", "data-db-1"]);
    assert_eq!(snapshots(&test, "data-db-0").len(), 2);

    put_restore(&test, "back", IMMEDIATE, 2, "data-db-${POD_ORDINAL}");
    let back = ended(&test, "back", "Succeeded");
    assert_eq!(back["status"]["totalHosts"], 2);
    for (number, expected) in last.iter().enumerate() {
        let claim = format!("back-{number}");
        assert_restored(expected, &read(&test, &claim), &claim);
    }
}

#[test]
fn what_cannot_be_snapshotted_is_named() {
    let test = StashTest::start();
    put_deployment(&test, "web");
    put_snapshotter(&test, "Deployment", "web");
    let class = r#"{"spec": {"target": {"snapshotClassName": "none"}}}"#;
    test.patch("backupconfiguration", "snapshots", class);
    let invalid = test.wait_for_phase(CONFIGURATION, "snapshots", "Invalid");
    let (_, message) = condition(&invalid, "ValidationPassed");
    assert!(message.contains("\"none\" (target.snapshotClassName) does not exist"), "{message}");
    let default = r#"{"spec": {"target": {"snapshotClassName": null}}}"#;
    test.patch("backupconfiguration", "snapshots", default);
    test.run(CONFIGURATION, "snapshots", "Succeeded");
    // Data goes back into new claims only.
    test.tenant.apply(
        "apiVersion: stash.appscode.com/v1beta1
kind: RestoreSession
metadata: {name: in-place}
spec:
  driver: VolumeSnapshotter
  target: {ref: {apiVersion: apps/v1, kind: Deployment, name: web}}
",
    );
    let invalid = ended(&test, "in-place", "Invalid");
    assert!(condition(&invalid, "ValidationPassed").1.contains("new claims only"), "{invalid}");
}
