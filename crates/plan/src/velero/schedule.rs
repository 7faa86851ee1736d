//! Schedules: when a backup is due, what it is called, what it holds. A Schedule, its backups and the time come in; what is to
//! be done comes out. Called by the schedule controller; the command line shows the next times and makes backups from a
//! schedule's template with the same functions.
//!
//! # Why no run is doubled or lost
//!
//! A run is identified by its **due time**, not by the moment it is made: the Backup's name is the schedule's name and the due
//! time in UTC. Whoever makes the run creates that one name. If the server dies between the create and the note in
//! `status.lastBackup`, or if two replicas lead for a moment, the second create meets its own name, and that is the answer
//! that the run is made. `lastBackup` only says from where to count on; it is written on the condition that nobody changed the
//! Schedule meanwhile.
//!
//! Of several due times that passed while nobody looked, the latest is made (upstream does not catch up either). When the
//! clock steps forward, that is the same case. When it steps back by less than a period, the runs up to `lastBackup` are made
//! already and nothing happens until the one after it. When it steps back further, `lastBackup` was written by a clock that was
//! wrong, and waiting for it could take years: the latest due time before now counts as due, and its name tells whether it was
//! made before.

mod backup;
mod due;
#[cfg(test)]
mod tests;

pub use backup::{backup, backup_name, own_name};
pub use due::{Made, Submission, past, submission};

pub use crate::schedule::{Cron, CronError, Past, Run, SKEW, run};

use jiff::Timestamp;
use lifeboat_api::common::time::seconds;
use lifeboat_api::velero::{Schedule, SchedulePhase};
use serde_json::{Value, json};

/// Longer names leave no room for the time in a backup's name.
const LONGEST_NAME: usize = 253 - "-20261116010203".len();

/// What is to be done with a Schedule now.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulePlan {
    /// Merge this first, on the condition that nobody changed the object; `None` where nothing changes.
    pub patch: Option<Value>,
    /// Then this.
    pub run: Run,
}

/// Decides. `skip_by_default`: the server's setting for schedules that do not say whether to skip the first run.
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

/// The times of a schedule, or everything that is wrong with it.
pub fn valid(schedule: &Schedule) -> Result<Cron, Vec<String>> {
    let mut errors = Vec::new();
    let name = schedule.metadata.name.as_deref().unwrap_or_default();
    if name.len() > LONGEST_NAME {
        errors.push(format!(
            "the name of this schedule has {} characters: with the time after it no backup could be called so; use at most {LONGEST_NAME}",
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

/// What the Schedule shows once the run of that due time is made. Both times are set to it where they lie behind it in the
/// future: they were written by a clock that was wrong.
pub fn made(past: &Past, due: Timestamp) -> Value {
    let mut status = json!({"lastBackup": seconds(due)});
    if past.skipped.is_some_and(|skipped| skipped > due) {
        status["lastSkipped"] = json!(seconds(due));
    }
    json!({"status": status})
}
