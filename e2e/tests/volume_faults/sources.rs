//! Faults of a volume while it is copied: its pod is deleted or moves, its mount disappears, its files cannot be read
//! or grow. In no case does the backup claim to contain more than it does.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};

use lifeboat_e2e::{OneVolume, Program, Way, anew, get, wait_for};

#[test]
fn a_pod_that_goes_while_it_is_copied_is_no_empty_backup() {
    let test = OneVolume::start(&[]);
    test.begin_and_hold("gone");
    test.app.kubectl().args(["delete", "pod", "db", "--wait=false"]).ok();
    wait_for("the end of the pod", 60, || {
        let found = test.app.kubectl().args(["get", "pod", "db"]).run();
        if found.code == 0 { Err("it is there".to_owned()) } else { Ok(()) }
    });
    test.server.storage.open();
    test.assert_failed("gone", &["db"]);
}

#[test]
fn files_that_cannot_be_read_are_named_and_the_backup_is_not_complete() {
    let test = OneVolume::start(&[]);
    let file = test.directory().join("unreadable");
    fs::write(&file, "").unwrap();
    // A file that only this process may read.
    let (source, target) = (format!("/proc/{}/mem", std::process::id()), file.to_str().unwrap().to_owned());
    Program::new("mount").args(["--bind", &source, &target]).ok();
    test.begin("unreadable");
    let (backup, copy) = test.ended("unreadable");
    Program::new("umount").arg(&target).ok();
    test.server.assert_phase(&backup, &["PartiallyFailed"]);
    let message = copy["status"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("unreadable"), "{copy}");
    assert!(
        !copy["status"]["snapshotID"].as_str().unwrap_or_default().is_empty(),
        "the rest is kept: {copy}"
    );
    test.assert_next_run_succeeds("next");
}

/// Writes into a file until it is dropped.
struct Writer(Child);

impl Writer {
    /// A limited amount, so that the disk does not become full.
    fn of(file: &Path) -> Self {
        let once = format!("head -c 200000 /dev/urandom >> '{}'; sleep 0.02", file.display());
        let all = format!("for round in $(seq 1500); do {once}; done");
        Self(Command::new("sh").args(["-c", &all]).spawn().unwrap())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_file_that_grows_all_the_time_does_not_keep_the_backup() {
    let test = OneVolume::start(&[]);
    let writer = Writer::of(&test.directory().join("grows"));
    test.begin("growing");
    let (backup, copy) = test.ended("growing");
    drop(writer);
    test.server.assert_phase(&backup, &["Completed"]);
    let annotations = &copy["metadata"]["annotations"];
    assert_eq!(annotations["lifeboat.io/consistency"], "Live", "{annotations}");
    test.assert_next_run_succeeds("next");
}

#[test]
fn a_volume_for_one_pod_only_is_copied_beside_it() {
    let test = OneVolume::of(Way::Files, "box-csi", "ReadWriteOncePod", &[]);
    test.assert_next_run_succeeds("alone");
}

#[test]
fn a_volume_for_one_pod_only_comes_back_from_its_snapshot() {
    let test = OneVolume::of(Way::Snapshot, "box-csi", "ReadWriteOncePod", &[]);
    let before = test.listing();
    test.assert_backup_succeeds("alone");
    test.assert_restore_succeeds("back", "alone", &before);
}

#[test]
fn a_volume_for_one_pod_only_is_moved_and_comes_back() {
    let test = OneVolume::of(Way::Moved, "box-csi", "ReadWriteOncePod", &[]);
    let before = test.listing();
    test.assert_next_run_succeeds("alone");
    test.assert_nothing_is_left();
    test.assert_restore_succeeds("back", "alone", &before);
    test.assert_nothing_is_left();
}

#[test]
fn a_mount_that_goes_while_it_is_copied_is_no_backup_and_neither_is_what_was_below_it() {
    let test = OneVolume::start(&[]);
    let directory = test.directory();
    test.begin_and_hold("detached");
    // Like a node that detaches a volume: open files stay readable, but the mount is gone.
    Program::new("umount").args(["--lazy", directory.to_str().unwrap()]).ok();
    test.server.storage.open();
    test.assert_failed("detached", &["mount"]);
    assert!(test.snapshots().is_empty(), "{:?}", test.snapshots());

    // The directory below the mount exists and is empty.
    test.begin("empty");
    test.assert_failed("empty", &["mount"]);
    assert!(test.snapshots().is_empty(), "{:?}", test.snapshots());

    let pod = test.pod().unwrap();
    test.app.kubectl().args(["delete", "pod", "db", "--timeout=60s"]).ok();
    test.app.apply(&anew(pod));
    test.wait_until_running();
    test.assert_next_run_succeeds("next");
}

const MOVING: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: db}
spec:
  strategy: {type: Recreate}
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}, annotations: {backup.velero.io/backup-volumes: data}}
    spec:
      terminationGracePeriodSeconds: 0
      nodeSelector: {kubernetes.io/hostname: NODE}
      containers:
      - name: main
        image: TEST_IMAGE
        imagePullPolicy: IfNotPresent
        command: [sleep, infinity]
        volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, emptyDir: {}}]
";

#[test]
fn a_pod_that_moves_to_another_node_while_it_is_copied_is_copied_there_by_the_next_run() {
    let test = OneVolume::with(Way::Files, &MOVING.replace("NODE", "box-1"), &[]);
    let first = test.pod().unwrap();
    test.begin_and_hold("moving");
    test.app.apply(&MOVING.replace("NODE", "box-2"));
    let name = first["metadata"]["name"].as_str().unwrap();
    wait_for("the end of the first pod", 60, || {
        let found = get(&["-n", &test.app.name, "pod", name]);
        if found.is_null() { Ok(()) } else { Err(found["status"].to_string()) }
    });
    test.wait_until_running();
    test.server.storage.open();
    test.assert_failed("moving", &[name]);
    assert!(test.snapshots().is_empty(), "{:?}", test.snapshots());

    fs::write(test.directory().join("file"), "on another node").unwrap();
    test.assert_next_run_succeeds("next");
    assert_eq!(test.copy("next")["spec"]["node"], "box-2", "{}", test.copy("next"));
}
