//! Schedules: a time that was missed is made up once, none is doubled; retries; the history.

use std::thread;
use std::time::Duration;

use lifeboat_e2e::{StashTest, wait_for};
use serde_json::Value;

use super::workloads::{claim_target, put_claim};

const CONFIGURATION: &str = "BackupConfiguration";
const DUE: &str = "lifeboat.io/due-time";

/// The due times of the sessions that the schedule made, in seconds: each is the end of its session's name.
fn due_times(test: &StashTest) -> Vec<i64> {
    let due = |session: &Value| {
        session["metadata"]["annotations"][DUE].as_str()?;
        session["metadata"]["name"].as_str()?.rsplit('-').next()?.parse().ok()
    };
    let mut times: Vec<i64> = test.sessions().iter().filter_map(due).collect();
    times.sort_unstable();
    times
}

#[test]
fn times_that_passed_while_the_server_was_down_are_made_up_once() {
    let mut test = StashTest::alone(&[]);
    test.put_repository("repo");
    put_claim(&test, "files");
    test.put_configuration("often", &claim_target("files", "files"), "");
    test.wait_for_phase(CONFIGURATION, "often", "Ready");
    test.patch(
        "backupconfiguration",
        "often",
        r#"{"spec": {"schedule": "@every 10s", "backupHistoryLimit": 30}}"#,
    );
    let first = wait_for("a session of the schedule", 60, || due_times(&test).pop().ok_or("none"));
    // Three due times pass without a server.
    test.stop_server();
    let before = due_times(&test);
    thread::sleep(Duration::from_secs(32));
    test.start_server();
    let times = wait_for("the session that is made up, and the next one", 90, || {
        let times = due_times(&test);
        if times.len() >= before.len() + 2 { Ok(times) } else { Err(format!("{times:?}, before {before:?}")) }
    });
    test.patch("backupconfiguration", "often", r#"{"spec": {"paused": true}}"#);
    let mut distinct = times.clone();
    distinct.dedup();
    assert_eq!(distinct, times, "no time is doubled");
    // Of those that passed the latest one only: after the last session from before, the next one is more than one interval later.
    let gap = times[before.len()] - times[before.len() - 1];
    assert!((20..=60).contains(&gap), "one session is made up, not three: {times:?} after {first}");
    test.wait_until_idle();
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_session_of_the_schedule_that_failed_is_tried_again_and_the_history_is_kept_short() {
    let test = StashTest::start();
    test.put_repository("repo");
    put_claim(&test, "files");
    // The path is in the volume's mount, but not in the volume.
    let target = "{alias: files, ref: {apiVersion: v1, kind: PersistentVolumeClaim, name: files}, paths: [/stash-data/gone]}";
    test.put_configuration("often", target, "  retryConfig: {maxRetry: 2, delay: 2s}\n");
    test.wait_for_phase(CONFIGURATION, "often", "Ready");
    test.patch("backupconfiguration", "often", r#"{"spec": {"schedule": "* * * * *"}}"#);
    let tries = wait_for("a session and its two retries", 150, || {
        let failed: Vec<Value> =
            test.sessions().into_iter().filter(|one| one["status"]["phase"] == "Failed").collect();
        if failed.len() >= 3 { Ok(failed) } else { Err(format!("{} have failed", failed.len())) }
    });
    test.patch("backupconfiguration", "often", r#"{"spec": {"paused": true}}"#);
    let mut left: Vec<i64> =
        tries.iter().map(|one| one["spec"]["retryLeft"].as_i64().unwrap_or(-1)).collect();
    left.sort_unstable();
    assert_eq!(left[..3], [0, 1, 2], "{tries:#?}");
    test.wait_until_idle();
    // What is there now can be backed up, and the history has its limit.
    test.put_configuration("often", &claim_target("files", "files"), "  paused: true\n");
    test.patch("backupconfiguration", "often", r#"{"spec": {"backupHistoryLimit": 2}}"#);
    test.wait_until_observed(CONFIGURATION, "often");
    test.run(CONFIGURATION, "often", "Succeeded");
    wait_for("a short history", 60, || {
        let sessions = test.sessions().len();
        if sessions <= 2 { Ok(()) } else { Err(format!("{sessions} sessions")) }
    });
    test.assert_nothing_is_left("repo");
}
