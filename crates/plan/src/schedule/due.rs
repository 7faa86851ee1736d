//! Whether a run is due, and what to do about it. Two questions, because the second needs the schedule's backups, which are
//! only read when something is due: at rest a schedule costs no request.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use lifeboat_api::velero::{BackupPhase, Schedule};

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
    pub fn of(schedule: &Schedule) -> Self {
        let status = schedule.status.as_ref();
        Self {
            created: schedule.metadata.creation_timestamp.as_ref().map_or(Timestamp::MIN, |time| time.0),
            last: status.and_then(|status| status.last_backup.as_ref()).map(|time| time.0),
            skipped: status.and_then(|status| status.last_skipped.as_ref()).map(|time| time.0),
        }
    }

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

/// A backup of a schedule, as far as the decision needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    pub name: String,
    pub phase: BackupPhase,
}

/// What to do about a run that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submission {
    /// Create the Backup.
    Create,
    /// It is there already: only the note is missing.
    IsThere,
    /// An earlier backup of this schedule has not ended; its name.
    Wait(String),
}

/// Decides by the schedule's backups. `name` is that of the due run. Upstream does not look for Queued and ReadyToStart and
/// lets backups pile up behind a long one.
pub fn submission(name: &str, made: &[Made]) -> Submission {
    if made.iter().any(|backup| backup.name == name) {
        return Submission::IsThere;
    }
    let unfinished = made.iter().find(|backup| {
        matches!(
            backup.phase,
            BackupPhase::New | BackupPhase::Queued | BackupPhase::ReadyToStart | BackupPhase::InProgress
        )
    });
    unfinished.map_or(Submission::Create, |backup| Submission::Wait(backup.name.clone()))
}
