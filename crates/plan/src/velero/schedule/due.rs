//! What to do about a run that is due. Needs the schedule's backups, which are read only when a run is due: an idle
//! schedule costs no request.

use jiff::Timestamp;
use lifeboat_api::velero::{BackupPhase, Schedule};

use crate::schedule::Past;

/// The times of earlier runs in a Schedule's status.
pub fn past(schedule: &Schedule) -> Past {
    let status = schedule.status.as_ref();
    Past {
        created: schedule.metadata.creation_timestamp.as_ref().map_or(Timestamp::MIN, |time| time.0),
        last: status.and_then(|status| status.last_backup.as_ref()).map(|time| time.0),
        skipped: status.and_then(|status| status.last_skipped.as_ref()).map(|time| time.0),
    }
}

/// A backup of a schedule, reduced to what the decision needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledBackup {
    pub name: String,
    pub phase: BackupPhase,
}

/// What to do about a run that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submission {
    /// Create the Backup.
    Create,
    /// It exists already: only the status is missing.
    IsThere,
    /// An earlier backup of this schedule has not ended; its name.
    Wait(String),
}

/// Decides from the schedule's backups. `name` is that of the due run. Upstream ignores Queued and ReadyToStart, so
/// that backups accumulate behind a long one.
pub fn submission(name: &str, made: &[ScheduledBackup]) -> Submission {
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
