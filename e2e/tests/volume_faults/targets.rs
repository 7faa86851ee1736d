//! Faults of a restore's target: too small, full, missing. The message names the volume and the reason, its pod does
//! not start, and a later restore into a good target succeeds.

use std::fs;

use lifeboat_e2e::{OneVolume, Way, apply, get, kubectl, random, unique, volume_directory};

/// A volume with an enforced size, also on the box.
const IN_MEMORY: &str = "
apiVersion: v1
kind: Pod
metadata: {name: db, labels: {app: db}, annotations: {backup.velero.io/backup-volumes: data}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: TEST_IMAGE
    imagePullPolicy: IfNotPresent
    command: [sleep, infinity]
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, emptyDir: {medium: Memory, sizeLimit: 32Mi}}]
";

/// A resource modifier that applies this JSON patch to pods.
fn with_patch(test: &OneVolume, path: &str, value: &str) -> [String; 2] {
    let rules = format!(
        "version: v1
resourceModifierRules:
- conditions: {{groupResource: pods}}
  patches:
  - {{operation: add, path: {path}, value: '{value}'}}
"
    );
    let literal = format!("--from-literal=rules.yaml={rules}");
    test.server.kubectl().args(["create", "configmap", "rules", &literal]).ok();
    ["--resource-modifier-configmap".to_owned(), "rules".to_owned()]
}

/// Fails unless the restored pod keeps waiting for its data.
fn assert_pod_waits(test: &OneVolume) {
    let pod = test.pod().unwrap();
    let init = &pod["status"]["initContainerStatuses"][0]["state"];
    assert!(!init["running"].is_null(), "{}", pod["status"]);
}

#[test]
fn a_volume_that_is_too_small_is_refused_before_anything_is_written() {
    let test = OneVolume::with(Way::Files, IN_MEMORY, &[]);
    let before = test.listing();
    test.assert_next_run_succeeds("kept");
    test.lose_app();
    let smaller = with_patch(&test, "/spec/volumes/0/emptyDir/sizeLimit", "\"1Mi\"");
    let flags: Vec<&str> = smaller.iter().map(String::as_str).collect();
    test.server.restore("small", "kept", &flags);
    test.assert_restore_failed("small", &["larger volume"]);
    assert_pod_waits(&test);
    let written: Vec<_> = fs::read_dir(test.directory()).unwrap().flatten().collect();
    assert!(written.is_empty(), "{written:?}");
    test.assert_no_lock();
    test.assert_restore_succeeds("large", "kept", &before);
}

#[test]
fn a_volume_that_fills_up_while_it_is_written_ends_the_restore() {
    let test = OneVolume::with(Way::Files, IN_MEMORY, &[]);
    let before = test.listing();
    test.assert_next_run_succeeds("kept");
    test.restore_and_hold("full", "kept");
    let directory = volume_directory(&test.pod().unwrap(), "data");
    fs::write(directory.join("filler"), random(30 << 20)).unwrap();
    test.server.storage.open();
    test.assert_restore_failed("full", &["full", "larger volume"]);
    assert_pod_waits(&test);
    test.assert_no_lock();
    test.assert_restore_succeeds("again", "kept", &before);
}

/// A storage class of the box's driver for this test only.
struct Class(String);

impl Class {
    fn new() -> Self {
        let name = unique("class");
        apply(&format!(
            "apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{name: {name}}}
provisioner: hostpath.csi.k8s.io
volumeBindingMode: WaitForFirstConsumer
"
        ));
        Self(name)
    }

    fn delete(&self) {
        kubectl().args(["delete", "storageclass", &self.0, "--ignore-not-found"]).ok();
    }
}

impl Drop for Class {
    fn drop(&mut self) {
        kubectl().args(["delete", "storageclass", &self.0, "--ignore-not-found"]).run();
    }
}

#[test]
fn a_claim_that_gets_no_volume_for_its_moved_data_is_named() {
    let class = Class::new();
    let test = OneVolume::of(Way::Moved, &class.0, "ReadWriteOnce", &["--mover-prepare-timeout", "20s"]);
    test.assert_next_run_succeeds("kept");
    test.lose_app();
    class.delete();
    test.server.restore("nowhere", "kept", &[]);
    test.assert_restore_failed("nowhere", &["data", &class.0]);
    let claim = get(&["-n", &test.app.name, "pvc", "data"]);
    assert_eq!(claim["status"]["phase"], "Pending", "{claim}");
    test.assert_no_lock();
}

#[test]
fn a_claim_that_gets_no_volume_from_its_snapshot_is_named() {
    let class = Class::new();
    let test = OneVolume::of(Way::Snapshot, &class.0, "ReadWriteOnce", &["--resource-timeout", "20s"]);
    test.assert_backup_succeeds("kept");
    test.lose_app();
    class.delete();
    let restore = test.server.restore("nowhere", "kept", &[]);
    test.server.assert_phase(&restore, &["PartiallyFailed"]);
    test.assert_described(&restore, &["data", &class.0]);
    test.server.no_mover_is_left();
    test.lose_app();
}

#[test]
fn a_snapshot_that_is_on_another_node_is_named_and_comes_back_on_its_own() {
    let test =
        OneVolume::of(Way::Snapshot, "box-csi-node-local", "ReadWriteOnce", &["--resource-timeout", "30s"]);
    let before = test.listing();
    let node = test.pod().unwrap()["spec"]["nodeName"].as_str().unwrap().to_owned();
    let other = if node == "box-1" { "box-2" } else { "box-1" };
    test.assert_backup_succeeds("kept");
    test.lose_app();
    let selector = format!(r#"{{"kubernetes.io/hostname": "{other}"}}"#);
    let elsewhere = with_patch(&test, "/spec/nodeSelector", &selector);
    let flags: Vec<&str> = elsewhere.iter().map(String::as_str).collect();
    let restore = test.server.restore("elsewhere", "kept", &flags);
    test.server.assert_phase(&restore, &["PartiallyFailed"]);
    test.assert_described(&restore, &["data", "snapshot"]);
    test.server.no_mover_is_left();

    test.lose_app();
    test.server.kubectl().args(["delete", "configmap", "rules"]).ok();
    let selector = format!(r#"{{"kubernetes.io/hostname": "{node}"}}"#);
    let there = with_patch(&test, "/spec/nodeSelector", &selector);
    let flags: Vec<&str> = there.iter().map(String::as_str).collect();
    let restore = test.server.restore("there", "kept", &flags);
    test.server.assert_phase(&restore, &["Completed"]);
    test.wait_until_running();
    before.assert_same(&test.listing(), "restored where its snapshot is");
}

#[test]
fn data_of_a_class_that_makes_volumes_before_any_pod_is_moved_wherever_they_are() {
    let test =
        OneVolume::of(Way::Moved, "box-csi-immediate", "ReadWriteOnce", &["--mover-prepare-timeout", "20s"]);
    let before = test.listing();
    // Each is created on a node that the test does not choose.
    for name in ["first", "second", "third"] {
        test.assert_next_run_succeeds(name);
    }
    test.assert_nothing_is_left();
    test.assert_restore_succeeds("back", "third", &before);
}

#[test]
fn a_snapshot_that_is_on_one_node_is_moved_from_there() {
    let test = OneVolume::of(Way::Moved, "box-csi-node-local", "ReadWriteOnce", &[]);
    let before = test.listing();
    let node = test.pod().unwrap()["spec"]["nodeName"].clone();
    test.assert_next_run_succeeds("moved");
    assert_eq!(test.copy("moved")["status"]["node"], node, "{}", test.copy("moved"));
    test.assert_nothing_is_left();
    test.assert_restore_succeeds("back", "moved", &before);
}
