//! Backups and retention; restores are in a file of their own.

mod restore;

use jiff::Timestamp;
use lifeboat_api::stash::InvokerKind;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::retention::kept;
use super::*;
use crate::stash::retention::KeepPolicy;
use crate::stash::session::{InvokerId, TargetKey};

fn invoker(kind: InvokerKind, name: &str) -> InvokerId {
    InvokerId { kind, namespace: "shop".into(), name: name.into() }
}

fn owner(session: &str, uid: &str) -> SnapshotOwner {
    SnapshotOwner {
        invoker: invoker(InvokerKind::BackupConfiguration, "nightly"),
        session: session.into(),
        uid: uid.into(),
        created: Timestamp::from_second(1_800_000_000).unwrap(),
    }
}

/// A VolumeSnapshot that a session took of a claim, ready since this time.
fn snapshot(name: &str, claim: &str, session: &str, time: &str) -> Value {
    let mut made = owner("s", session).snapshot(name, claim, "fast", None);
    made["status"] = json!({
        "boundVolumeSnapshotContentName": format!("content-{name}"), "readyToUse": true,
        "creationTime": time, "restoreSize": "1Gi",
    });
    made
}

#[rstest]
#[case::scheduled("nightly-1700000100", "data-1700000100")]
#[case::with_its_kind("nightly-1700000100-backupconfiguration", "data-1700000100")]
#[case::by_hand("by-hand", "data-1800000000")]
#[case::a_number_that_is_no_time("web-1", "data-1800000000")]
fn a_snapshot_has_the_second_of_its_session(#[case] session: &str, #[case] expected: &str) {
    assert_eq!(owner(session, "u1").names("data")[0], expected);
}

#[test]
fn the_longest_claim_has_a_snapshot_of_its_own() {
    let owner = owner("nightly-1700000100", "u1");
    let (one, other) = (format!("{}a", "x".repeat(252)), format!("{}b", "x".repeat(252)));
    for name in owner.names(&one) {
        assert!(name.len() <= 253, "{name}");
    }
    assert_ne!(owner.names(&one)[0], owner.names(&other)[0]);
}

#[rstest]
#[case::nothing_is_there(&[], Ok("take data-1700000100"))]
#[case::made_before_a_crash(&[("data-1700000100", "data", "u1")], Ok("adopt data-1700000100"))]
#[case::another_session_was_due_then(&[("data-1700000100", "data", "u2")], Ok("take data-1700000100-"))]
#[case::of_a_stranger(&[("data-1700000100", "data", "")], Err("VolumeSnapshot data-1700000100 exists"))]
#[case::of_another_claim(&[("data-1700000100", "other", "u1")], Ok("take data-1700000100-"))]
fn a_snapshot_is_taken_once_and_never_in_place_of_another(
    #[case] existing: &[(&str, &str, &str)],
    #[case] expected: Result<&str, &str>,
) {
    let existing: Vec<Value> =
        existing.iter().map(|(name, claim, session)| snapshot(name, claim, session, "")).collect();
    let find = |name: &str| existing.iter().find(|one| one["metadata"]["name"] == name);
    let shown = match owner("nightly-1700000100", "u1").choose("data", find) {
        Ok(Choice::Take(name)) => Ok(format!("take {name}")),
        Ok(Choice::Adopt(name)) => Ok(format!("adopt {name}")),
        Err(error) => Err(error.to_string()),
    };
    match (shown, expected) {
        (Ok(shown), Ok(expected)) => assert!(shown.starts_with(expected), "{shown}"),
        (Err(shown), Err(expected)) => assert!(shown.contains(expected), "{shown}"),
        (shown, expected) => panic!("{shown:?}, not {expected:?}"),
    }
}

#[test]
fn the_second_name_stays_once_it_is_in_use() {
    let owner = owner("nightly-1700000100", "u1");
    let own = owner.names("data")[1].clone();
    let made = snapshot(&own, "data", "u1", "");
    // The other session's snapshot, which had the first name, is gone by now.
    let find = |name: &str| (name == own).then_some(&made);
    assert_eq!(owner.choose("data", find), Ok(Choice::Adopt(own.clone())));
}

#[test]
fn a_snapshot_shows_its_invoker_target_and_session_and_has_no_owner() {
    let target = TargetKey { kind: "Deployment".into(), namespace: "shop".into(), name: "web".into() };
    let made = owner("s", "u1").snapshot("data-1", "data", "fast", Some(&target));
    let labels = &made["metadata"]["labels"];
    assert_eq!(labels["lifeboat.io/backup-session"], "u1");
    assert_eq!(labels["stash.appscode.com/invoker-name"], "nightly");
    assert_eq!(labels["stash.appscode.com/target-name"], "web");
    assert!(made["metadata"].get("ownerReferences").is_none(), "{made}");
    assert_eq!(
        made["spec"],
        json!({"volumeSnapshotClassName": "fast", "source": {"persistentVolumeClaimName": "data"}})
    );
}

#[rstest]
#[case::new(json!({}), Stage::Requested, "no snapshot controller", Some(600))]
#[case::refused(json!({"error": {"message": "no class"}}), Stage::Requested, "no class", Some(1800))]
#[case::bound(json!({"boundVolumeSnapshotContentName": "c"}), Stage::Bound, "has not taken it yet", None)]
#[case::failing(
    json!({"boundVolumeSnapshotContentName": "c", "error": {"message": "quota"}}), Stage::Bound, "quota", Some(1800)
)]
#[case::taken(
    json!({"boundVolumeSnapshotContentName": "c", "creationTime": "2026-01-01T00:00:00Z", "readyToUse": false}),
    Stage::Taken, "has not made it ready", None
)]
#[case::ready(
    json!({"boundVolumeSnapshotContentName": "c", "creationTime": "2026-01-01T00:00:00Z", "readyToUse": true}),
    Stage::Ready, "ready to use", None
)]
#[case::ready_with_an_old_error(
    json!({"boundVolumeSnapshotContentName": "c", "readyToUse": true, "error": {"message": "once"}}), Stage::Ready, "ready to use", None
)]
fn the_state_of_a_snapshot_says_what_it_waits_for_and_how_long(
    #[case] status: Value,
    #[case] stage: Stage,
    #[case] says: &str,
    #[case] seconds: Option<u64>,
) {
    let state = SnapshotState::of(&json!({"status": status}));
    assert_eq!(state.stage, stage);
    assert!(state.message().contains(says), "{}", state.message());
    assert_eq!(state.patience().map(|patience| patience.as_secs()), seconds);
}

#[test]
fn a_snapshot_that_is_being_deleted_is_not_waited_for() {
    let mut going = snapshot("data-1", "data", "u1", "2026-01-01T00:00:00Z");
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let state = SnapshotState::of(&going);
    assert_eq!((state.stage, state.patience()), (Stage::Deleted, Some(std::time::Duration::ZERO)));
}

fn times(texts: &[&str]) -> Vec<Timestamp> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

const DAYS: [&str; 6] = [
    "2026-01-06T12:00:00Z",
    "2026-01-06T03:00:00Z",
    "2026-01-05T03:00:00Z",
    "2026-01-04T03:00:00Z",
    "2025-12-29T03:00:00Z",
    "2025-12-28T03:00:00Z",
];

#[rstest]
#[case::nothing_counts(KeepPolicy::default(), "kkkkkk", "a policy without numbers keeps all")]
#[case::tags_only(KeepPolicy { tags: vec!["a".into()], ..KeepPolicy::default() }, "kkkkkk", "snapshots have no tags")]
#[case::last(KeepPolicy { last: 2, ..KeepPolicy::default() }, "kk....", "the two newest")]
#[case::hourly(KeepPolicy { hourly: 3, ..KeepPolicy::default() }, "kkk...", "each in an hour of its own")]
#[case::daily(KeepPolicy { daily: 3, ..KeepPolicy::default() }, "k.kk..", "the newest of each day")]
#[case::weekly(KeepPolicy { weekly: 3, ..KeepPolicy::default() }, "k..k.k", "weeks begin on Monday, also across years")]
#[case::monthly(KeepPolicy { monthly: 2, ..KeepPolicy::default() }, "k...k.", "the newest of January and of December")]
#[case::yearly(KeepPolicy { yearly: 3, ..KeepPolicy::default() }, "k...kk", "the oldest too, while a number is left")]
#[case::several(KeepPolicy { last: 1, yearly: 2, ..KeepPolicy::default() }, "k...k.", "each number counts for itself")]
fn a_policy_keeps_the_newest_of_each_period(
    #[case] policy: KeepPolicy,
    #[case] expected: &str,
    #[case] reason: &str,
) {
    let shown: String =
        kept(&policy, &times(&DAYS)).into_iter().map(|kept| if kept { 'k' } else { '.' }).collect();
    assert_eq!(shown, expected, "{reason}");
}

#[test]
fn only_ready_snapshots_of_the_invoker_and_the_claim_are_removed() {
    let day = |day: u32| format!("2026-01-0{day}T00:00:00Z");
    let mut not_ready = snapshot("not-ready", "data", "u1", &day(1));
    not_ready["status"]["readyToUse"] = json!(false);
    let mut of_batch = snapshot("of-a-batch", "data", "u1", &day(1));
    of_batch["metadata"]["labels"]["stash.appscode.com/invoker-type"] = json!("BackupBatch");
    let mut by_hand = snapshot("by-hand", "data", "u1", &day(1));
    by_hand["metadata"]["labels"] = json!({});
    let mut going = snapshot("going", "data", "u1", &day(9));
    going["metadata"]["deletionTimestamp"] = json!(day(9));
    let all = [
        snapshot("old", "data", "u1", &day(2)),
        snapshot("new", "data", "u2", &day(4)),
        snapshot("middle", "data", "u3", &day(3)),
        snapshot("of-another-claim", "other", "u1", &day(1)),
        not_ready,
        of_batch,
        by_hand,
        going,
    ];
    let keep = KeepPolicy { last: 2, ..KeepPolicy::default() };
    let invoker = invoker(InvokerKind::BackupConfiguration, "nightly");
    let removed: Vec<&Value> =
        removable(&all, &invoker, "data", &keep).into_iter().map(|one| &one["metadata"]["name"]).collect();
    assert_eq!(removed, ["old"]);
}

proptest! {
    /// The newest snapshot stays under every policy, and so do as many as `keepLast` says.
    #[test]
    fn a_policy_never_removes_the_newest(
        seconds in proptest::collection::btree_set(1_600_000_000i64..1_800_000_000, 1..40),
        numbers in proptest::array::uniform6(0u64..5),
    ) {
        let times: Vec<Timestamp> =
            seconds.iter().rev().map(|second| Timestamp::from_second(*second).unwrap()).collect();
        let [last, hourly, daily, weekly, monthly, yearly] = numbers;
        let policy = KeepPolicy { last, hourly, daily, weekly, monthly, yearly, tags: Vec::new() };
        let kept = kept(&policy, &times);
        prop_assert_eq!(kept.len(), times.len());
        prop_assert!(kept[0]);
        let least = usize::try_from(last).unwrap().min(times.len());
        prop_assert!(kept.iter().take(least).all(|kept| *kept));
    }
}
