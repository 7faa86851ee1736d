//! What to do about a run that is due. Needs the schedule's backups, which are only read when something is due: an idle
//! schedule costs no request.

use jiff::Timestamp;
use lifeboat_api::velero::{BackupPhase, Schedule};

use crate::schedule::Past;

/// What a Schedule's status notes of runs so far.
pub fn past(schedule: &Schedule) -> Past {
    let status = schedule.status.as_ref();
    Past {
        created: schedule.metadata.creation_timestamp.as_ref().map_or(Timestamp::MIN, |time| time.0),
        last: status.and_then(|status| status.last_backup.as_ref()).map(|time| time.0),
        skipped: status.and_then(|status| status.last_skipped.as_ref()).map(|time| time.0),
    }
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
