//! Whether a run of a schedule is due: decided by the expression, what is noted of earlier runs, and the clock.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::cron::Cron;

/// How far clocks of servers may lie apart: what was noted up to this far in the future is waited for.
pub const SKEW: SignedDuration = SignedDuration::from_mins(5);

/// The clock is looked at this often at least: a timer knows nothing of a clock that was set.
const LOOK: Duration = Duration::from_mins(1);

/// What is noted of runs so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    pub created: Timestamp,
    pub last: Option<Timestamp>,
    pub skipped: Option<Timestamp>,
}

impl Past {
    /// From when on runs are counted.
    fn anchor(&self) -> Timestamp {
        self.last.max(self.skipped).unwrap_or(self.created)
    }
}

/// Whether there is something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// Not before the schedule changes.
    Never,
    /// Look again after this time.
    Later(Duration),
    /// The run of this time is to be made.
    Due(Timestamp),
}

/// Decides by the clock alone.
pub fn run(cron: &Cron, past: &Past, now: Timestamp) -> Run {
    let anchor = past.anchor();
    let Some(next) = cron.next(anchor) else { return Run::Never };
    if next <= now {
        return cron.latest(anchor, now).map_or(Run::Never, Run::Due);
    }
    if is_from_a_wrong_clock(cron, anchor, now) {
        return cron.latest_ever(now).map_or(Run::Never, Run::Due);
    }
    let rest = Duration::try_from(next.duration_since(now)).unwrap_or(LOOK);
    Run::Later(rest.min(LOOK).max(Duration::from_millis(1)))
}

/// What was noted lies so far ahead that the next run would be left out while it is waited for.
fn is_from_a_wrong_clock(cron: &Cron, anchor: Timestamp, now: Timestamp) -> bool {
    let far = anchor.duration_since(now) > SKEW;
    far && cron.next(now).is_some_and(|next| next < anchor)
}
