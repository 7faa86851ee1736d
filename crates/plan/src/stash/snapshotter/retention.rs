//! Retention of driver VolumeSnapshotter: which snapshots of a claim the policy of their invoker keeps. The rules are those of restic's
//! `forget`, which driver Restic uses, in UTC: of each of the newest periods that have snapshots the newest one is kept, and the oldest of
//! all while a number is left. Only snapshots that are ready to use are counted or removed.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde_json::Value;

use super::{SnapshotState, Stage, claim_of, owned_by_session};
use crate::json::text;
use crate::stash::retention::KeepPolicy;
use crate::stash::session::{InvokerId, labels};

/// The labels that the snapshots of an invoker have in common.
pub fn selector(invoker: &InvokerId) -> BTreeMap<String, String> {
    labels(invoker, None)
}

/// The snapshots of a claim that an invoker took and that its policy does not keep. `snapshots`: VolumeSnapshots of its namespace.
pub fn removable<'a>(
    snapshots: &'a [Value],
    invoker: &InvokerId,
    claim: &str,
    keep: &KeepPolicy,
) -> Vec<&'a Value> {
    let wanted = selector(invoker);
    let is_candidate = |snapshot: &&Value| {
        let own = &snapshot["metadata"]["labels"];
        owned_by_session(snapshot)
            && wanted.iter().all(|(label, value)| own[label.as_str()] == value.as_str())
            && claim_of(snapshot) == claim
            && SnapshotState::of(snapshot).stage == Stage::Ready
    };
    let with_time = |snapshot: &'a Value| Some((taken_at(snapshot)?, snapshot));
    let mut found: Vec<(Timestamp, &'a Value)> =
        snapshots.iter().filter(is_candidate).filter_map(with_time).collect();
    let name = |snapshot: &'a Value| text(snapshot, "/metadata/name");
    found.sort_by(|one, other| (other.0, name(other.1)).cmp(&(one.0, name(one.1))));
    let times: Vec<Timestamp> = found.iter().map(|(time, _)| *time).collect();
    let kept = kept(keep, &times);
    found.into_iter().zip(kept).filter(|(_, kept)| !kept).map(|((_, snapshot), _)| snapshot).collect()
}

/// When the driver took a snapshot.
pub(super) fn taken_at(snapshot: &Value) -> Option<Timestamp> {
    let times = ["/status/creationTime", "/metadata/creationTimestamp"];
    times.into_iter().find_map(|at| text(snapshot, at).parse().ok())
}

/// Whether each of these times, the newest first, is kept. A policy that counts no snapshots keeps all: tags, which VolumeSnapshots do
/// not have, are no reason to delete everything.
pub(super) fn kept(keep: &KeepPolicy, times: &[Timestamp]) -> Vec<bool> {
    let mut buckets = [
        Bucket::new(keep.last, Period::Each),
        Bucket::new(keep.hourly, Period::Hour),
        Bucket::new(keep.daily, Period::Day),
        Bucket::new(keep.weekly, Period::Week),
        Bucket::new(keep.monthly, Period::Month),
        Bucket::new(keep.yearly, Period::Year),
    ];
    if buckets.iter().all(|bucket| bucket.left == 0) {
        return vec![true; times.len()];
    }
    let is_kept = |(position, time): (usize, &Timestamp)| {
        let time = time.to_zoned(TimeZone::UTC);
        let is_oldest = position + 1 == times.len();
        // Every bucket is asked: each counts for itself.
        let takers =
            buckets.iter_mut().filter_map(|bucket| bucket.takes(&time, position, is_oldest).then_some(()));
        takers.count() > 0
    };
    times.iter().enumerate().map(is_kept).collect()
}

/// A period of which one snapshot is kept.
#[derive(Clone, Copy, Debug)]
enum Period {
    Each,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

impl Period {
    /// A number that all times of one period have, and no others.
    fn number(self, time: &Zoned, position: usize) -> i64 {
        let [year, month, day, hour] =
            [i64::from(time.year()), time.month().into(), time.day().into(), time.hour().into()];
        match self {
            Self::Each => i64::try_from(position).unwrap_or(i64::MAX),
            Self::Hour => ((year * 100 + month) * 100 + day) * 100 + hour,
            Self::Day => (year * 100 + month) * 100 + day,
            Self::Week => {
                let week = time.date().iso_week_date();
                i64::from(week.year()) * 100 + i64::from(week.week())
            }
            Self::Month => year * 100 + month,
            Self::Year => year,
        }
    }
}

/// One number of the policy, while snapshots are counted.
struct Bucket {
    left: u64,
    period: Period,
    last: Option<i64>,
}

impl Bucket {
    fn new(left: u64, period: Period) -> Self {
        Self { left, period, last: None }
    }

    /// Whether the snapshot is kept: it is the first of its period, or the oldest of all.
    fn takes(&mut self, time: &Zoned, position: usize, is_oldest: bool) -> bool {
        let number = Some(self.period.number(time, position));
        if self.left == 0 || (number == self.last && !is_oldest) {
            return false;
        }
        self.left -= 1;
        self.last = number;
        true
    }
}
