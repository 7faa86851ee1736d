//! Whether a run of a schedule is due, from the expression, the recorded times of earlier runs and the current time.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::cron::Cron;

/// The maximum clock skew between servers: a recorded time up to this far in the future is waited for.
pub const SKEW: SignedDuration = SignedDuration::from_mins(5);

/// The maximum time between two checks, because a timer does not notice when the clock is set.
const LOOK: Duration = Duration::from_mins(1);

/// The recorded times of earlier runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    pub created: Timestamp,
    pub last: Option<Timestamp>,
    pub skipped: Option<Timestamp>,
}

impl Past {
    /// The time after which the next run is computed.
    fn anchor(&self) -> Timestamp {
        self.last.max(self.skipped).unwrap_or(self.created)
    }
}

/// The next step of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// Nothing until the schedule changes.
    Never,
    /// Check again after this time.
    Later(Duration),
    /// Start the run of this time.
    Due(Timestamp),
}

/// Decides from the expression and the time alone.
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

/// Whether the recorded time is so far in the future that waiting for it would skip the next run.
fn is_from_a_wrong_clock(cron: &Cron, anchor: Timestamp, now: Timestamp) -> bool {
    let far = anchor.duration_since(now) > SKEW;
    far && cron.next(now).is_some_and(|next| next < anchor)
}
