//! Compares our retention with decisions of restic 0.19.1's own code, recorded in fixtures/retention.json: random
//! policies on random lists of snapshots, with every reason and counter.
#![allow(clippy::unwrap_used)]

use lifeboat_repository::forget::policy::{Age, Count, Policy};
use lifeboat_repository::id::{BlobId, Id, SnapshotId};
use lifeboat_repository::snapshot::Snapshot;
use lifeboat_repository::snapshots::{FoundSnapshot, TagList};
use serde::Deserialize;

#[derive(Deserialize)]
struct Recorded {
    now: jiff::Timestamp,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    policy: Given,
    shown: String,
    snapshots: Option<Vec<Taken>>,
    keep: Option<Vec<Kept>>,
    remove: Option<Vec<usize>>,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Given {
    last: i64,
    hourly: i64,
    daily: i64,
    weekly: i64,
    monthly: i64,
    yearly: i64,
    within: String,
    within_hourly: String,
    within_daily: String,
    within_weekly: String,
    within_monthly: String,
    within_yearly: String,
    tags: Vec<Vec<String>>,
}

#[derive(Deserialize)]
struct Taken {
    #[serde(rename = "t")]
    time: String,
    #[serde(rename = "g", default)]
    tags: Vec<String>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Kept {
    #[serde(rename = "n")]
    number: usize,
    #[serde(rename = "m")]
    matches: Vec<String>,
    #[serde(rename = "c")]
    counters: [i64; 6],
}

impl Given {
    fn policy(&self) -> Policy {
        let count = |number: i64| u64::try_from(number).map_or(Count::Unlimited, Count::Limited);
        let age = |text: &str| text.parse::<Age>().unwrap();
        Policy {
            last: count(self.last),
            hourly: count(self.hourly),
            daily: count(self.daily),
            weekly: count(self.weekly),
            monthly: count(self.monthly),
            yearly: count(self.yearly),
            within: age(&self.within),
            within_hourly: age(&self.within_hourly),
            within_daily: age(&self.within_daily),
            within_weekly: age(&self.within_weekly),
            within_monthly: age(&self.within_monthly),
            within_yearly: age(&self.within_yearly),
            tags: self.tags.iter().map(|list| TagList(list.clone())).collect(),
        }
    }
}

/// The ID contains the number, so that snapshots of the same time keep their order, as in restic's stable sort.
fn found(number: usize, taken: &Taken) -> FoundSnapshot {
    let mut id = [0; 32];
    id[..8].copy_from_slice(&(number as u64).to_be_bytes());
    let json = serde_json::json!({
        "time": taken.time, "tree": BlobId(Id(id)), "paths": ["/data"], "tags": taken.tags,
    });
    let snapshot: Snapshot = serde_json::from_value(json).unwrap();
    (SnapshotId(Id(id)), snapshot)
}

fn number((id, _): &FoundSnapshot) -> usize {
    usize::try_from(u64::from_be_bytes(id.0.0[..8].try_into().unwrap())).unwrap()
}

#[test]
fn every_decision_is_the_one_that_restic_made() {
    let recorded: Recorded = serde_json::from_str(include_str!("fixtures/retention.json")).unwrap();
    assert!(recorded.cases.len() >= 100);
    for (case_number, case) in recorded.cases.iter().enumerate() {
        let policy = case.policy.policy();
        assert_eq!(policy.to_string(), case.shown, "case {case_number}");
        let snapshots = case.snapshots.as_deref().unwrap_or_default();
        let snapshots = snapshots.iter().enumerate().map(|(number, taken)| found(number, taken)).collect();
        let decision = policy.apply(snapshots, recorded.now);
        let keep: Vec<Kept> = decision
            .keep
            .iter()
            .map(|kept| {
                let left = kept.counters;
                let counters = [left.last, left.hourly, left.daily, left.weekly, left.monthly, left.yearly];
                Kept { number: number(&kept.snapshot), matches: kept.matches.clone(), counters }
            })
            .collect();
        assert_eq!(&keep, case.keep.as_deref().unwrap_or_default(), "case {case_number}: {policy}");
        let remove: Vec<usize> = decision.remove.iter().map(number).collect();
        assert_eq!(&remove, case.remove.as_deref().unwrap_or_default(), "case {case_number}: {policy}");
    }
}
