//! Driver VolumeSnapshotter: snapshots of claims in the storage system, kept by the policy, and restored into new claims.

use std::fs;

use lifeboat_e2e::{RESTORE_SESSIONS, StashTest, get, volume_directory, wait_for};
use serde_json::Value;

use super::workloads::{put_deployment, put_stateful_set};

const CONFIGURATION: &str = "BackupConfiguration";

fn put_configuration(test: &StashTest, name: &str, target: &str) {
    test.tenant.apply(&format!(
        "apiVersion: stash.appscode.com/v1beta1
kind: BackupConfiguration
metadata: {{name: {name}}}
spec:
  driver: VolumeSnapshotter
  schedule: '0 3 1 1 *'
  backupHistoryLimit: 20
  retentionPolicy: {{name: keep, keepLast: 2, prune: false}}
  target: {target}
"
    ));
}

/// The snapshots of a claim, the oldest first.
fn snapshots(test: &StashTest, claim: &str) -> Vec<String> {
    let list =
        get(&["-n", &test.tenant.name, "volumesnapshots"])["items"].as_array().cloned().unwrap_or_default();
    let of_claim = |one: &&Value| one["spec"]["source"]["persistentVolumeClaimName"] == claim;
    let mut found: Vec<(String, String)> = list
        .iter()
        .filter(of_claim)
        .map(|one| {
            let of = |field: &str| one["metadata"][field].as_str().unwrap_or_default().to_owned();
            (of("creationTimestamp"), of("name"))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, name)| name).collect()
}

#[test]
fn a_claims_snapshots_are_kept_by_the_policy_and_come_back_in_a_new_claim() {
    let test = StashTest::start();
    put_deployment(&test, "web");
    let target = "{ref: {apiVersion: apps/v1, kind: Deployment, name: web}, snapshotClassName: box-csi}";
    put_configuration(&test, "nightly", target);
    for number in 0..3 {
        fs::write(test.directory("web", 0, "data").join("which"), format!("session {number}")).unwrap();
        let session = test.run(CONFIGURATION, "nightly", "Succeeded");
        // The claim is the host, as upstream has it.
        assert_eq!(session["status"]["targets"][0]["stats"][0]["hostname"], "web", "{session}");
    }
    let kept = wait_for("two snapshots", 60, || {
        let found = snapshots(&test, "web");
        if found.len() == 2 { Ok(found) } else { Err(found.join(", ")) }
    });
    assert!(kept.iter().all(|name| name.starts_with("web-")), "{kept:?}");
    for (number, snapshot) in kept.iter().enumerate() {
        let restored = format!("restored-{number}");
        test.tenant.apply(&format!(
            "apiVersion: stash.appscode.com/v1beta1
kind: RestoreSession
metadata: {{name: back-{number}}}
spec:
  driver: VolumeSnapshotter
  target:
    volumeClaimTemplates:
    - metadata: {{name: {restored}}}
      spec:
        accessModes: [ReadWriteOnce]
        storageClassName: box-csi-immediate
        dataSource: {{apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: {snapshot}}}
        resources: {{requests: {{storage: 64Mi}}}}
"
        ));
        test.restored_as(RESTORE_SESSIONS, &format!("back-{number}"), "Succeeded");
        assert_eq!(which(&test, &restored), format!("session {}", number + 1), "the first one is gone");
    }
    test.assert_no_mover_is_left();
}

/// The content of `which` in a claim that no pod uses.
fn which(test: &StashTest, claim: &str) -> String {
    test.tenant.apply(&format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: reader-{claim}}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {{name: main, image: TEST_IMAGE, imagePullPolicy: IfNotPresent, command: [sleep, infinity], volumeMounts: [{{name: data, mountPath: /d}}]}}
  volumes: [{{name: data, persistentVolumeClaim: {{claimName: {claim}}}}}]
"
    ));
    let pod = format!("reader-{claim}");
    test.kubectl().args(["wait", "--for=condition=Ready", "pod", &pod, "--timeout=90s"]).ok();
    let reader = get(&["-n", &test.tenant.name, "pods", &pod]);
    let found = fs::read_to_string(volume_directory(&reader, "data").join("which")).unwrap();
    test.delete(&["pod", &pod]);
    found
}

#[test]
fn each_replica_of_a_stateful_set_has_its_own_snapshots() {
    let test = StashTest::start();
    put_stateful_set(&test, "db");
    let target =
        "{ref: {apiVersion: apps/v1, kind: StatefulSet, name: db}, replicas: 2, snapshotClassName: box-csi}";
    put_configuration(&test, "nightly", target);
    let session = test.run(CONFIGURATION, "nightly", "Succeeded");
    assert_eq!(session["status"]["targets"][0]["totalHosts"], 2, "{session}");
    for claim in ["data-db-0", "data-db-1"] {
        assert_eq!(snapshots(&test, claim).len(), 1, "{claim}");
    }
}

#[test]
fn a_snapshot_class_that_does_not_exist_fails_the_session_with_its_name() {
    let test = StashTest::start();
    put_deployment(&test, "web");
    let target =
        "{ref: {apiVersion: apps/v1, kind: Deployment, name: web}, snapshotClassName: no-such-class}";
    put_configuration(&test, "nightly", target);
    test.wait_for_phase(CONFIGURATION, "nightly", "Ready");
    let session = test.run(CONFIGURATION, "nightly", "Failed");
    let said = session["status"].to_string();
    assert!(said.contains("no-such-class"), "{said}");
    assert_eq!(snapshots(&test, "web"), [] as [String; 0]);
}
