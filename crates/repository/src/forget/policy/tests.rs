//! Properties of every policy; tests/retention.rs compares single decisions with restic's.

use proptest::prelude::*;

use super::*;
use crate::id::{BlobId, Id, SnapshotId};
use crate::snapshot::Snapshot;
use crate::snapshots::TagList;

const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

fn found(number: usize, seconds: i64, offset_hours: i8, tag: bool) -> FoundSnapshot {
    let id = Id::of(&number.to_be_bytes());
    let time = crate::time::zoned(Timestamp::from_second(seconds).unwrap(), jiff::tz::offset(offset_hours));
    let json = serde_json::json!({
        "time": crate::time::text(&time), "tree": BlobId(id), "paths": ["/"],
        "tags": if tag { vec!["a"] } else { vec![] },
    });
    (SnapshotId(id), serde_json::from_value::<Snapshot>(json).unwrap())
}

prop_compose! {
    fn snapshots()(times in prop::collection::vec((1_500_000_000..1_810_000_000_i64, -12..13_i8, any::<bool>()), 0..40))
        -> Vec<FoundSnapshot> {
        times.into_iter().enumerate()
            .map(|(number, (seconds, offset, tag))| found(number, seconds, offset, tag)).collect()
    }
}

fn count() -> impl Strategy<Value = Count> {
    prop_oneof![3 => Just(Count::Limited(0)), 3 => (1..12_u64).prop_map(Count::Limited), 1 => Just(Count::Unlimited)]
}

fn age() -> impl Strategy<Value = Age> {
    let some = (0..3_u32, 0..14_u32, 0..60_u32, 0..100_u32).prop_map(|(years, months, days, hours)| Age {
        years,
        months,
        days,
        hours,
    });
    prop_oneof![2 => Just(Age::default()), 1 => some]
}

prop_compose! {
    fn policy()(
        counts in prop::array::uniform6(count()),
        ages in prop::array::uniform6(age()),
        tagged in any::<bool>(),
    ) -> Policy {
        let [last, hourly, daily, weekly, monthly, yearly] = counts;
        let [within, within_hourly, within_daily, within_weekly, within_monthly, within_yearly] = ages;
        let tags = TagLists(if tagged { vec![TagList(vec!["a".into()])] } else { vec![] });
        Policy {
            last, hourly, daily, weekly, monthly, yearly,
            within, within_hourly, within_daily, within_weekly, within_monthly, within_yearly, tags,
        }
    }
}

fn kept(decision: &Decision) -> Vec<SnapshotId> {
    decision.keep.iter().map(|kept| kept.snapshot.0).collect()
}

fn more(count: Count, extra: u64) -> Count {
    match count {
        Count::Limited(number) => Count::Limited(number + extra),
        Count::Unlimited => Count::Unlimited,
    }
}

proptest! {
    #[test]
    fn each_snapshot_is_either_kept_or_removed(policy in policy(), snapshots in snapshots()) {
        let decision = policy.apply(snapshots.clone(), NOW);
        let mut all: Vec<_> = kept(&decision);
        all.extend(decision.remove.iter().map(|found| found.0));
        all.sort();
        let mut given: Vec<_> = snapshots.iter().map(|found| found.0).collect();
        given.sort();
        prop_assert_eq!(all, given);
        prop_assert!(decision.keep.iter().all(|kept| !kept.matches.is_empty()));
    }

    #[test]
    fn keep_last_keeps_the_newest(number in 1..50_u64, snapshots in snapshots()) {
        let policy = Policy { last: Count::Limited(number), ..Policy::default() };
        let mut sorted = snapshots.clone();
        newest_first(&mut sorted);
        let newest: Vec<_> =
            sorted.iter().take(usize::try_from(number).unwrap()).map(|found| found.0).collect();
        prop_assert_eq!(kept(&policy.apply(snapshots, NOW)), newest);
    }

    #[test]
    fn a_larger_policy_never_keeps_less(
        policy in policy(),
        extra in prop::array::uniform6(0..3_u64),
        days in 0..50_u32,
        snapshots in snapshots(),
    ) {
        let mut larger = policy.clone();
        let counts = [
            &mut larger.last, &mut larger.hourly, &mut larger.daily,
            &mut larger.weekly, &mut larger.monthly, &mut larger.yearly,
        ];
        for (count, extra) in counts.into_iter().zip(extra) {
            *count = more(*count, extra);
        }
        larger.within.days += days;
        larger.within_daily.days += days;
        larger.tags.0.push(TagList(vec!["a".into()]));
        let before = kept(&policy.apply(snapshots.clone(), NOW));
        let after = kept(&larger.apply(snapshots, NOW));
        prop_assert!(before.iter().all(|id| after.contains(id)));
    }

    #[test]
    fn a_policy_removes_nothing_the_second_time(policy in policy(), snapshots in snapshots()) {
        let once = policy.apply(snapshots, NOW);
        let left = once.keep.iter().map(|kept| kept.snapshot.clone()).collect();
        let twice = policy.apply(left, NOW);
        prop_assert!(twice.remove.is_empty());
    }

    #[test]
    fn the_newest_snapshot_stays_under_any_policy_but_one_of_tags(policy in policy(), snapshots in snapshots()) {
        let policy = Policy { tags: TagLists::default(), ..policy };
        let now = Timestamp::from_second(1_900_000_000).unwrap();
        let decision = policy.apply(snapshots.clone(), now);
        if !policy.is_empty() && !snapshots.is_empty() {
            let mut sorted = snapshots;
            newest_first(&mut sorted);
            prop_assert_eq!(kept(&decision).first().copied(), Some(sorted[0].0));
        }
    }
}

#[test]
fn a_snapshot_from_the_future_does_not_shorten_what_is_kept_within_an_age() {
    let policy = Policy { within: "1d".parse().unwrap(), ..Policy::default() };
    let snapshots = vec![found(0, 1_799_990_000, 0, false), found(1, 2_000_000_000, 0, false)];
    assert!(policy.apply(snapshots, NOW).remove.is_empty());
}

#[test]
fn a_policy_of_nothing_is_empty() {
    assert!(Policy::default().is_empty());
    assert!(Policy { within: "0d".parse().unwrap(), ..Policy::default() }.is_empty());
    assert_eq!(Policy::default().to_string(), "remove");
}
