//! Schedules: when a backup is due, its name and its content. Takes a Schedule, its backups and the time; gives the
//! next step. Called by the schedule controller; the command line uses the same functions to show the next times and
//! to create backups from a schedule's template.
//!
//! # Why no run is duplicated or lost
//!
//! A run is identified by its **due time**, not by the moment it is started: the Backup's name is the schedule's name
//! and the due time in UTC, so every server that starts the run creates the same name. If the server dies between
//! creating the Backup and updating `status.lastBackup`, or if two replicas lead for a moment, the second create
//! fails because the name exists, which proves that the run was started. `lastBackup` is only the time after which
//! the next run is computed; it is written on the condition that the Schedule has not changed.
//!
//! If several due times have passed while no server was running, only the latest is started (upstream does not catch
//! up either). A clock that is set forward is the same case. If it is set back by less than a period, the runs up to
//! `lastBackup` exist already and nothing happens until the next one. If it is set back further, `lastBackup` was
//! written by a wrong clock, and waiting for it could take years: the latest due time before now counts as due, and
//! whether a Backup of its name exists shows whether it was started before.

mod backup;
mod due;
#[cfg(test)]
mod tests;

pub use backup::{backup, backup_name, own_name};
pub use due::{ScheduledBackup, Submission, past, submission};

use jiff::Timestamp;
use lifeboat_api::common::time::seconds;
use lifeboat_api::velero::{Schedule, SchedulePhase};
use serde_json::{Value, json};

use crate::schedule::{Cron, Past, Run, run};

/// The maximum length of a schedule's name: a backup's name has the time appended.
const LONGEST_NAME: usize = 253 - "-20261116010203".len();

/// The next step for a Schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulePlan {
    /// Merge this first, on the condition that the object has not changed; `None` if nothing changes.
    pub patch: Option<Value>,
    /// Then this.
    pub run: Run,
}

/// Decides what to write into a Schedule and when its next Backup is due. `skip_by_default`: the server's setting for schedules that do not set `skipImmediately`.
pub fn plan(schedule: &Schedule, now: Timestamp, skip_by_default: bool) -> SchedulePlan {
    let cron = match valid(schedule) {
        Ok(cron) => cron,
        Err(errors) => return refused(schedule, &errors),
    };
    let mut patch = json!({});
    if *schedule.phase() != SchedulePhase::Enabled || shown_errors(schedule).is_some() {
        patch["status"] = json!({"phase": "Enabled", "validationErrors": null});
    }
    let mut past = past(schedule);
    if schedule.is_paused() {
        return SchedulePlan { patch: changed(patch), run: Run::Never };
    }
    if schedule.spec.skip_immediately.unwrap_or(skip_by_default) {
        patch["spec"] = json!({"skipImmediately": false});
        patch["status"]["lastSkipped"] = json!(seconds(now));
        past.skipped = Some(now);
    }
    SchedulePlan { patch: changed(patch), run: run(&cron, &past, now) }
}

/// The parsed expression, or all problems of a schedule.
pub fn valid(schedule: &Schedule) -> Result<Cron, Vec<String>> {
    let mut errors = Vec::new();
    let name = schedule.metadata.name.as_deref().unwrap_or_default();
    if name.len() > LONGEST_NAME {
        errors.push(format!(
            "the name of this schedule has {} characters: with the time appended, the backup's name would be too long; use at most {LONGEST_NAME}",
            name.len()
        ));
    }
    match Cron::parse(&schedule.spec.schedule) {
        Ok(cron) if errors.is_empty() => return Ok(cron),
        Ok(_) => {}
        Err(error) => errors.push(format!("spec.schedule: {error}")),
    }
    Err(errors)
}

fn refused(schedule: &Schedule, errors: &[String]) -> SchedulePlan {
    let known = *schedule.phase() == SchedulePhase::FailedValidation
        && shown_errors(schedule).is_some_and(|shown| shown == errors);
    let patch = json!({"status": {"phase": "FailedValidation", "validationErrors": errors}});
    SchedulePlan { patch: (!known).then_some(patch), run: Run::Never }
}

fn shown_errors(schedule: &Schedule) -> Option<&Vec<String>> {
    schedule.status.as_ref()?.validation_errors.as_ref()
}

fn changed(patch: Value) -> Option<Value> {
    patch.as_object().is_some_and(|fields| !fields.is_empty()).then_some(patch)
}

/// The status of the Schedule once the run of a due time was started. Both timestamps are set to it if they are
/// later: they were written by a wrong clock.
pub fn made(past: &Past, due: Timestamp) -> Value {
    let mut status = json!({"lastBackup": seconds(due)});
    if past.skipped.is_some_and(|skipped| skipped > due) {
        status["lastSkipped"] = json!(seconds(due));
    }
    json!({"status": status})
}
