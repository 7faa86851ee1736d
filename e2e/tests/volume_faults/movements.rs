//! Faults of a DataUpload or DataDownload: it is cancelled, its backup is deleted, its mover is killed, its snapshot is
//! never ready, the repository does not open. Each ends in a phase with its reason and leaves nothing behind.

use lifeboat_e2e::{BrokenSnapshotClass, OneVolume, Way, apply, get, mover_process, signal, wait_for};
use serde_json::Value;

fn start(flags: &[&str]) -> OneVolume {
    OneVolume::of(Way::Moved, "box-csi", "ReadWriteOnce", flags)
}

fn cancel(test: &OneVolume, object: &Value) {
    let name = object["metadata"]["name"].as_str().unwrap();
    let kind = object["kind"].as_str().unwrap().to_lowercase();
    let patch = ["patch", &kind, name, "--type=merge", "-p", r#"{"spec": {"cancel": true}}"#];
    test.server.kubectl().args(patch).ok();
}

#[test]
fn an_upload_that_is_cancelled_ends_so_and_leaves_no_snapshot_anywhere() {
    let test = start(&[]);
    test.begin_and_hold("unwanted");
    cancel(&test, &test.copy("unwanted"));
    // Its mover is asked to end, and no longer waits for storage.
    let (backup, upload) = test.ended("unwanted");
    test.assert_ended_badly(&backup, &upload, "Canceled", &["cancelled"]);
    test.server.storage.open();
    assert!(test.snapshots().is_empty(), "{:?}", test.snapshots());
    test.assert_next_run_succeeds("wanted");
}

#[test]
fn a_download_that_is_cancelled_ends_so_and_its_claim_stays_without_a_volume() {
    let test = start(&[]);
    let before = test.listing();
    test.assert_next_run_succeeds("kept");
    test.restore_and_hold("unwanted", "kept");
    cancel(&test, &test.filling("unwanted"));
    let restore = test.server.ended("restore", "unwanted");
    test.assert_ended_badly(&restore, &test.filling("unwanted"), "Canceled", &["cancelled", "data"]);
    let claim = get(&["-n", &test.app.name, "pvc", "data"]);
    assert_eq!(claim["status"]["phase"], "Pending", "{claim}");
    test.server.storage.open();
    test.assert_no_lock();
    test.assert_restore_succeeds("wanted", "kept", &before);
    test.assert_nothing_is_left();
}

#[test]
fn a_backup_that_is_deleted_while_its_data_is_moved_leaves_nothing() {
    let test = start(&[]);
    test.begin_and_hold("deleted");
    wait_for("the end of the backup's pass", 60, || {
        let backup = get(&["-n", &test.server.namespace, "backups.velero.io", "deleted"]);
        let phase = backup["status"]["phase"].as_str().unwrap_or_default().to_owned();
        if phase.starts_with("Waiting") { Ok(()) } else { Err(phase) }
    });
    test.assert_deletion_leaves_nothing("deleted");
    test.assert_next_run_succeeds("next");
}

#[test]
fn a_mover_of_an_upload_that_is_killed_is_sent_again_and_nothing_is_stored_twice() {
    let test = start(&[]);
    let pod = test.begin_and_hold("killed");
    signal("-KILL", &mover_process(&pod));
    test.server.storage.open();
    let (backup, upload) = test.ended("killed");
    test.server.assert_phase(&backup, &["Completed"]);
    assert_eq!(upload["status"]["phase"], "Completed", "{upload}");
    test.assert_stored("killed");
    assert_eq!(test.snapshots().len(), 1, "{:?}", test.snapshots());
    test.assert_no_lock();
    test.assert_nothing_is_left();
}

#[test]
fn a_mover_of_a_download_that_is_killed_gets_a_new_volume() {
    let test = start(&[]);
    test.assert_filled_though_a_mover_is_killed();
}

#[test]
fn an_upload_that_takes_too_long_is_ended() {
    let test = start(&["--fs-backup-timeout", "25s"]);
    test.begin_and_hold("slow");
    test.assert_failed("slow", &["--fs-backup-timeout"]);
    test.assert_next_run_succeeds("next");
}

#[test]
fn a_key_that_is_taken_away_while_data_is_moved_is_named() {
    let test = start(&[]);
    test.assert_key_that_is_taken_away_is_named();
}

#[test]
fn a_lost_password_fails_the_download_with_a_message_and_the_right_one_fixes_it() {
    let test = start(&[]);
    let before = test.listing();
    test.assert_next_run_succeeds("kept");
    let password = test.server.password();
    test.server.set_password("another");
    test.lose_app();
    test.server.restore("locked-out", "kept", &[]);
    test.assert_restore_failed("locked-out", &["password"]);
    test.server.set_password(&password);
    test.assert_restore_succeeds("back", "kept", &before);
    test.assert_no_lock();
}

#[test]
fn data_of_a_snapshot_that_is_never_ready_is_not_moved_and_the_snapshot_goes() {
    let class = BrokenSnapshotClass::made();
    let test = start(&["--mover-prepare-timeout", "15s"]);
    test.app.apply(&format!(
        "apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {{name: never}}
spec: {{volumeSnapshotClassName: {}, source: {{persistentVolumeClaimName: data}}}}
",
        class.name
    ));
    apply(&format!(
        "apiVersion: velero.io/v2alpha1
kind: DataUpload
metadata: {{name: never, namespace: {}}}
spec:
  snapshotType: CSI
  csiSnapshot: {{volumeSnapshot: never, snapshotClass: {}, storageClass: box-csi}}
  sourcePVC: data
  sourceNamespace: {}
  backupStorageLocation: default
  operationTimeout: 10m0s
",
        test.server.namespace, class.name, test.app.name
    ));
    let upload = wait_for("the end of the upload", 90, || {
        let upload = get(&["-n", &test.server.namespace, "dataupload", "never"]);
        if upload["status"]["phase"] == "Failed" { Ok(upload) } else { Err(upload["status"].to_string()) }
    });
    let message = upload["status"]["message"].as_str().unwrap_or_default();
    for word in ["never", "not ready", "credentials"] {
        assert!(message.contains(word), "{word:?} is not in {message:?}");
    }
    test.assert_nothing_is_left();
}
