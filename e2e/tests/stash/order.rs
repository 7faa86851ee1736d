//! The order of a batch's members: one after the other where that is asked for, in backups and restores, also if one fails; at once
//! otherwise.

use lifeboat_e2e::{Fault, RESTORE_BATCHES, StashTest, wait_for};
use serde_json::Value;

use super::workloads::{claim_target, member, put_claim};

const BATCH: &str = "BackupBatch";
const NAMES: [&str; 3] = ["first", "second", "third"];
/// How often the order is looked at.
const RUNS: usize = 5;

/// Three claims, each a member of a batch that is `more`.
fn start(more: &str) -> StashTest {
    let test = StashTest::start();
    test.put_repository("repo");
    for name in NAMES {
        put_claim(&test, name);
    }
    test.put_batch("all", &members(), more);
    test
}

fn members() -> Vec<String> {
    NAMES.iter().map(|name| member(&claim_target(name, name))).collect()
}

/// When the only host of each member began and ended, in seconds. A time in a status has no fractions; a duration has.
fn spans(members: &Value) -> Vec<(f64, f64)> {
    let span = |member: &Value| {
        let host = &member["stats"][0];
        let begin = seconds(host["startTime"].as_str().unwrap_or_else(|| panic!("no start: {member:#}")));
        let lasted = duration(host["duration"].as_str().unwrap_or_else(|| panic!("no duration: {member:#}")));
        (begin, begin + lasted)
    };
    members.as_array().unwrap().iter().map(span).collect()
}

/// Fails unless each member began after the one before it had ended, as exactly as a status says.
fn assert_in_turn(members: &Value) {
    for pair in spans(members).windows(2) {
        let ((_, ended), (began, _)) = (pair[0], pair[1]);
        assert!(
            began + 1.0 > ended,
            "a member began at {began}, the one before it ended at {ended}: {members:#}"
        );
    }
}

/// Seconds of the day in a time such as `2026-11-18T21:00:00Z`.
fn seconds(time: &str) -> f64 {
    let parts: Vec<f64> = time
        .split_once('T')
        .map(|(_, clock)| clock.trim_end_matches('Z').split(':').map(|part| part.parse().unwrap()).collect())
        .unwrap();
    parts[0] * 3600.0 + parts[1] * 60.0 + parts[2]
}

/// Seconds of a duration such as `1m2.5s` or `850ms`.
fn duration(text: &str) -> f64 {
    let mut sum = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let unit = rest.find(|letter: char| letter.is_ascii_alphabetic() || letter == 'µ').unwrap();
        let number: f64 = rest[..unit].parse().unwrap();
        let end =
            rest[unit..].find(|letter: char| letter.is_ascii_digit()).map_or(rest.len(), |at| unit + at);
        sum += number
            * match &rest[unit..end] {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" => 1e-6,
                "ns" => 1e-9,
                other => panic!("unit {other:?} in {text:?}"),
            };
        rest = &rest[end..];
    }
    sum
}

/// The members that a mover works for, while storage holds what the first ones write or read.
fn at_work(status: &Value) -> Vec<bool> {
    let members = status["targets"].as_array().or_else(|| status["members"].as_array()).cloned();
    let is_running = |member: &Value| member["stats"][0]["phase"] == "Running";
    members.unwrap_or_default().iter().map(is_running).collect()
}

#[test]
fn members_in_order_begin_when_the_one_before_has_ended_in_both_directions() {
    let test = start("  maintainOrder: true\n");
    for run in 0..RUNS {
        let session = test.run(BATCH, "all", "Succeeded");
        assert_in_turn(&session["status"]["targets"]);
        let name = format!("back-{run}");
        test.restore_batch(&name, &members(), "  executionOrder: Sequential\n");
        let back = test.restored_as(RESTORE_BATCHES, &name, "Succeeded");
        assert_in_turn(&back["status"]["members"]);
    }
    // Of each run the snapshots were made in the order of the members.
    let mut times: Vec<(String, String)> = test
        .backups("repo")
        .iter()
        .map(|one| (one["time"].as_str().unwrap().to_owned(), one["hostname"].as_str().unwrap().to_owned()))
        .collect();
    times.sort();
    let hosts: Vec<&str> = times.iter().map(|(_, host)| host.as_str()).collect();
    assert_eq!(hosts, NAMES.repeat(RUNS));
    test.assert_nothing_is_left("repo");
}

/// A member that is held keeps those behind it from beginning. Nothing here depends on how long anything takes.
#[test]
fn a_member_in_order_that_is_slow_holds_the_others_up() {
    let test = start("  maintainOrder: true\n");
    test.wait_for_phase(BATCH, "all", "Ready");
    test.storage.close("PUT", "/data/", Fault::Hold, 1);
    let session = test.begin(BATCH, "all");
    test.storage.wait_until_reached(90);
    let status = test.session(&session)["status"].clone();
    assert_eq!(at_work(&status), [true, false, false], "{status:#}");
    assert_eq!(test.movers().len(), 1, "one mover at a time");
    test.storage.open();
    let session = test.ended(&session);
    assert_eq!(session["status"]["phase"], "Succeeded", "{session}");
    assert_in_turn(&session["status"]["targets"]);
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_member_that_fails_lets_the_next_one_begin_in_both_directions() {
    let test = start("  maintainOrder: true\n");
    let mut with_a_gap = members();
    with_a_gap[1] = member(&claim_target("second", "gone"));
    test.put_batch("all", &with_a_gap, "  maintainOrder: true\n");
    test.wait_until_observed(BATCH, "all");
    let session = test.run(BATCH, "all", "Failed");
    let targets = &session["status"]["targets"];
    for (number, phase) in ["Succeeded", "Failed", "Succeeded"].into_iter().enumerate() {
        assert_eq!(targets[number]["phase"], phase, "{targets:#}");
    }
    assert_in_turn(&Value::from(vec![targets[0].clone(), targets[2].clone()]));
    // Of `second` nothing is stored.
    test.restore_batch("back", &members(), "  maintainOrder: true\n");
    let back = test.restored_as(RESTORE_BATCHES, "back", "Failed");
    let members = &back["status"]["members"];
    for (number, phase) in ["Succeeded", "Failed", "Succeeded"].into_iter().enumerate() {
        assert_eq!(members[number]["phase"], phase, "{members:#}");
    }
    assert_in_turn(&Value::from(vec![members[0].clone(), members[2].clone()]));
    test.assert_nothing_is_left("repo");
}

#[test]
fn members_without_an_order_are_at_work_together_in_both_directions() {
    let test = start("");
    test.wait_for_phase(BATCH, "all", "Ready");
    test.storage.close("PUT", "/data/", Fault::Hold, 1000);
    let session = test.begin(BATCH, "all");
    wait_for("three members at work", 90, || {
        let status = test.session(&session)["status"].clone();
        if at_work(&status) == [true; 3] { Ok(()) } else { Err(status.to_string()) }
    });
    test.wait_for_movers(3);
    test.storage.open();
    assert_eq!(test.ended(&session)["status"]["phase"], "Succeeded");
    test.assert_no_mover_is_left();
    test.storage.close("GET", "/data/", Fault::Hold, 1000);
    test.restore_batch("back", &members(), "");
    wait_for("three members at work", 90, || {
        let status = test.restore_now(RESTORE_BATCHES, "back")["status"].clone();
        if at_work(&status) == [true; 3] { Ok(()) } else { Err(status.to_string()) }
    });
    test.wait_for_movers(3);
    test.storage.open();
    test.restored_as(RESTORE_BATCHES, "back", "Succeeded");
    test.assert_nothing_is_left("repo");
}
