//! restic's retention policy: decides which snapshots of one group are kept and why. Takes a policy, the group and
//! the current time; returns the decision. `forget` calls it for every group. No I/O and no clock.
//!
//! It differs from restic in two points, in both cases by keeping more: a number of hours beyond the range of Go's
//! durations does not wrap around, and days are counted in the newest snapshot's own UTC offset even if restic's
//! machine happens to have a time zone with that offset and daylight saving time.

mod age;
mod count;

pub use age::Age;
pub use count::Count;

use std::fmt;

use jiff::{Timestamp, Zoned};
use serde::Serialize;

use crate::snapshots::{FoundSnapshot, TagLists, newest_first};

/// Go's zero time.
const YEAR_ONE: Timestamp = Timestamp::constant(-62_135_596_800, 0);

/// The rules for keeping snapshots. The default keeps nothing and is refused by `forget`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    pub last: Count,
    pub hourly: Count,
    pub daily: Count,
    pub weekly: Count,
    pub monthly: Count,
    pub yearly: Count,
    pub within: Age,
    pub within_hourly: Age,
    pub within_daily: Age,
    pub within_weekly: Age,
    pub within_monthly: Age,
    pub within_yearly: Age,
    /// Keep snapshots with all tags of one of these lists.
    pub tags: TagLists,
}

/// A snapshot that is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    pub snapshot: FoundSnapshot,
    /// The reasons, with restic's wording.
    pub matches: Vec<String>,
    /// The remaining counts after this snapshot.
    pub counters: Counters,
}

/// The remaining counts; -1 for unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    #[serde(skip_serializing_if = "is_zero")]
    pub last: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub hourly: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub daily: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub weekly: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub monthly: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub yearly: i64,
}

/// The decision about a group; both lists newest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    pub keep: Vec<Kept>,
    pub remove: Vec<FoundSnapshot>,
}

impl Policy {
    /// Whether it would keep nothing at all.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Decides about the snapshots of one group.
    pub fn apply(&self, mut snapshots: Vec<FoundSnapshot>, now: Timestamp) -> Decision {
        newest_first(&mut snapshots);
        let newest = newest_before(&snapshots, now);
        let mut counted = self.counted();
        let mut aged = self.aged().map(|(age, period, reason)| {
            let start = (!age.is_zero()).then(|| age.before(&newest));
            (start, Bucket { period, last: None }, format!("{reason} {age}"))
        });
        let within_start = (!self.within.is_zero()).then(|| self.within.before(&newest));

        let mut decision = Decision::default();
        let oldest = snapshots.len().saturating_sub(1);
        for (number, found) in snapshots.into_iter().enumerate() {
            let snapshot = &found.1;
            let time = &snapshot.time;
            let at = age::nanoseconds(time);
            let mut matches = Vec::new();
            for list in self.tags.0.iter().filter(|list| list.matches(snapshot)) {
                matches.push(format!("has tags {list}"));
            }
            if within_start.is_some_and(|start| at > start) {
                matches.push(format!("within {}", self.within));
            }
            // The oldest snapshot is kept as well while a count is left, for the longest history.
            for (count, bucket, reason) in counted.iter_mut().filter(|(count, ..)| count.is_left()) {
                if let Some(prefix) = bucket.take(time, number, number == oldest) {
                    count.use_one();
                    matches.push(format!("{prefix}{reason}"));
                }
            }
            for (start, bucket, reason) in &mut aged {
                if start.is_some_and(|start| at > start)
                    && let Some(prefix) = bucket.take(time, number, number == oldest)
                {
                    matches.push(format!("{prefix}{reason}"));
                }
            }
            if matches.is_empty() {
                decision.remove.push(found);
            } else {
                let [last, hourly, daily, weekly, monthly, yearly] =
                    counted.each_ref().map(|(count, ..)| count.number());
                let counters = Counters { last, hourly, daily, weekly, monthly, yearly };
                decision.keep.push(Kept { snapshot: found, matches, counters });
            }
        }
        decision
    }

    fn counted(&self) -> [(Count, Bucket, &'static str); 6] {
        [
            (self.last, Period::Each, "last snapshot"),
            (self.hourly, Period::Hour, "hourly snapshot"),
            (self.daily, Period::Day, "daily snapshot"),
            (self.weekly, Period::Week, "weekly snapshot"),
            (self.monthly, Period::Month, "monthly snapshot"),
            (self.yearly, Period::Year, "yearly snapshot"),
        ]
        .map(|(count, period, reason)| (count, Bucket { period, last: None }, reason))
    }

    fn aged(&self) -> [(Age, Period, &'static str); 5] {
        [
            (self.within_hourly, Period::Hour, "hourly within"),
            (self.within_daily, Period::Day, "daily within"),
            (self.within_weekly, Period::Week, "weekly within"),
            (self.within_monthly, Period::Month, "monthly within"),
            (self.within_yearly, Period::Year, "yearly within"),
        ]
    }
}

/// The sentence that restic prints after "Applying Policy:".
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = ["latest", "hourly", "daily", "weekly", "monthly", "yearly"];
        let counts = [self.last, self.hourly, self.daily, self.weekly, self.monthly, self.yearly];
        let counts: Vec<String> = counts
            .iter()
            .zip(names)
            .filter(|(count, _)| count.is_left())
            .map(|(count, word)| match count {
                Count::Unlimited => format!("all {word}"),
                Count::Limited(number) => format!("{number} {word}"),
            })
            .collect();
        let mut lists = Vec::new();
        if !counts.is_empty() {
            lists.push(format!("{} snapshots", counts.join(", ")));
        }
        for ((age, ..), word) in self.aged().iter().zip(&names[1..]).filter(|((age, ..), _)| !age.is_zero()) {
            lists.push(format!("{word} snapshots within {age}"));
        }
        let mut parts = Vec::new();
        if !lists.is_empty() {
            parts.push(lists.join(", "));
        }
        if !self.tags.is_empty() {
            parts.push(format!("all snapshots with tags {}", self.tags));
        }
        if !self.within.is_zero() {
            parts.push(format!("all snapshots within {} of the newest", self.within));
        }
        if parts.is_empty() { f.write_str("remove") } else { write!(f, "keep {}", parts.join(" and ")) }
    }
}

/// The reference time of ages: the newest snapshot that is not in the future. Without one it is the year 1, compared
/// with which every snapshot is new enough: all are kept.
fn newest_before(snapshots: &[FoundSnapshot], now: Timestamp) -> Zoned {
    let zero = crate::time::zoned(YEAR_ONE, jiff::tz::Offset::UTC);
    snapshots
        .iter()
        .map(|(_, snapshot)| &snapshot.time)
        .find(|time| time.timestamp() < now && time.timestamp() > zero.timestamp())
        .cloned()
        .unwrap_or(zero)
}

/// A period of which one snapshot is kept, in the UTC offset of the snapshot.
#[derive(Debug, Clone, Copy)]
enum Period {
    Each,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

impl Period {
    /// A number that is the same for all times in one period and differs between periods.
    fn number(self, time: &Zoned, position: usize) -> i64 {
        let [year, month, day, hour] =
            [i64::from(time.year()), time.month().into(), time.day().into(), time.hour().into()];
        match self {
            Self::Each => i64::try_from(position).unwrap_or(i64::MAX),
            Self::Hour => year * 1_000_000 + month * 10_000 + day * 100 + hour,
            Self::Day => year * 10_000 + month * 100 + day,
            Self::Week => {
                let week = time.date().iso_week_date();
                i64::from(week.year()) * 100 + i64::from(week.week())
            }
            Self::Month => year * 100 + month,
            Self::Year => year,
        }
    }
}

/// Remembers the period of the last snapshot that was kept for it.
struct Bucket {
    period: Period,
    last: Option<i64>,
}

impl Bucket {
    /// Whether the snapshot is kept, and the prefix of the reason: the first of its period, or the oldest of all.
    fn take(&mut self, time: &Zoned, position: usize, oldest: bool) -> Option<&'static str> {
        let number = Some(self.period.number(time, position));
        let again = number == self.last;
        if again && !oldest {
            return None;
        }
        self.last = number;
        Some(if again { "oldest " } else { "" })
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests;
