//! Faults of a mover while a volume is restored: each fault ends in a phase with its reason, no pod starts with
//! incomplete data, and a later restore succeeds.

use lifeboat_e2e::{Fault, OneVolume, Way, anew};
use serde_json::Value;

#[test]
fn a_mover_that_is_killed_while_it_fills_a_volume_is_sent_again() {
    let test = OneVolume::start(&[]);
    test.assert_filled_though_a_mover_is_killed();
}

#[test]
fn a_pod_that_goes_while_its_volume_is_filled_leaves_a_volume_that_is_as_whole_as_is_said() {
    let test = OneVolume::start(&[]);
    let before = test.listing();
    test.assert_next_run_succeeds("kept");
    test.restore_and_hold("gone", "kept");
    let pod = test.pod().unwrap();
    test.app.kubectl().args(["delete", "pod", "db", "--timeout=60s"]).ok();
    test.server.storage.open();
    let restore = test.server.ended("restore", "gone");
    test.assert_no_lock();
    test.assert_nothing_is_left();
    if restore["status"]["phase"] == "Completed" {
        // Then the claim contains all data, for the next pod that mounts it.
        test.app.apply(&without_waiting(pod));
        test.wait_until_running();
        before.assert_same(&test.listing(), "in the claim");
    } else {
        test.assert_restore_failed("gone", &["gone"]);
    }
    test.assert_restore_succeeds("back", "kept", &before);
}

/// The manifest of a restored pod without its wait.
fn without_waiting(mut pod: Value) -> String {
    pod["spec"]["initContainers"] = Value::Null;
    anew(pod)
}

fn takes_too_long(way: Way) {
    let test = OneVolume::of(way, "box-csi", "ReadWriteOnce", &["--fs-backup-timeout", "25s"]);
    let before = test.listing();
    test.assert_next_run_succeeds("kept");
    test.restore_and_hold("slow", "kept");
    test.assert_restore_failed("slow", &["--fs-backup-timeout"]);
    test.server.storage.open();
    test.assert_no_lock();
    test.assert_restore_succeeds("back", "kept", &before);
}

#[test]
fn a_volume_that_is_filled_for_too_long_is_given_up() {
    takes_too_long(Way::Files);
}

#[test]
fn a_download_that_takes_too_long_is_ended() {
    takes_too_long(Way::Moved);
}

fn is_denied(way: Way) {
    let test = OneVolume::of(way, "box-csi", "ReadWriteOnce", &[]);
    let before = test.listing();
    test.assert_next_run_succeeds("kept");
    test.lose_app();
    let denied = "<Error><Code>InvalidAccessKeyId</Code><Message>no such key</Message></Error>".to_owned();
    test.server.storage.close("GET", "/data/", Fault::Answer(403, denied), 1000);
    test.server.restore("denied", "kept", &[]);
    test.assert_restore_failed("denied", &["credential"]);
    test.server.storage.open();
    test.assert_no_lock();
    test.assert_restore_succeeds("back", "kept", &before);
}

#[test]
fn a_key_that_is_taken_away_while_a_volume_is_filled_is_named() {
    is_denied(Way::Files);
}

#[test]
fn a_key_that_is_taken_away_while_data_is_brought_back_is_named() {
    is_denied(Way::Moved);
}
