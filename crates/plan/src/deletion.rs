//! Requests to delete a backup: when one is begun, refused, kept, removed. Called by the controller of
//! DeleteBackupRequest.

use std::time::Duration;

use jiff::Timestamp;
use lifeboat_api::velero::BackupPhase;
use serde_json::Value;

use crate::garbage::LocationState;

/// How long an answered request is kept, upstream's value.
pub const KEEP: Duration = Duration::from_hours(24);

/// What to do with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPlan {
    /// Begin, or go on: every step can be repeated.
    Work,
    /// Answered; look again after this time.
    KeepFor(Duration),
    Remove,
}

pub fn plan(request: &Value, now: Timestamp) -> RequestPlan {
    if request.pointer("/metadata/deletionTimestamp").is_some() {
        return RequestPlan::KeepFor(KEEP);
    }
    let text = |path: &str| request.pointer(path).and_then(Value::as_str).unwrap_or_default();
    if text("/status/phase") != "Processed" {
        return RequestPlan::Work;
    }
    let created = text("/metadata/creationTimestamp").parse::<Timestamp>();
    let age = created.map(|created| Duration::try_from(now.duration_since(created)).unwrap_or_default());
    match age.map(|age| KEEP.checked_sub(age)) {
        Ok(Some(rest)) if !rest.is_zero() => RequestPlan::KeepFor(rest),
        _ => RequestPlan::Remove,
    }
}

/// What a deletion has to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Files, snapshots and the object.
    Everything,
    /// The backup never began, so there is nothing but the object.
    ObjectOnly,
}

/// What is known before a deletion begins.
#[derive(Clone, Debug)]
pub struct Known<'a> {
    pub backup: &'a str,
    /// None where there is no such Backup.
    pub phase: Option<BackupPhase>,
    pub location: &'a str,
    pub location_state: LocationState,
    /// Restores from this backup that have not ended.
    pub running_restores: &'a [String],
}

/// Whether the deletion may begin, and of how much; else why not, for the request's errors.
pub fn admit(known: &Known<'_>) -> Result<Extent, String> {
    let Known { backup, location, .. } = known;
    match &known.phase {
        None => return Err(format!("backup not found: there is no Backup '{backup}'")),
        Some(
            BackupPhase::ReadyToStart
            | BackupPhase::InProgress
            | BackupPhase::WaitingForPluginOperations
            | BackupPhase::WaitingForPluginOperationsPartiallyFailed
            | BackupPhase::Finalizing
            | BackupPhase::FinalizingPartiallyFailed,
        ) => {
            return Err(format!(
                "backup is still in progress: wait for its end, or cancel it with `lifeboat backup cancel {backup}`"
            ));
        }
        Some(BackupPhase::New | BackupPhase::Queued | BackupPhase::FailedValidation) => {
            return Ok(Extent::ObjectOnly);
        }
        Some(_) => {}
    }
    if let [first, ..] = known.running_restores {
        return Err(format!("restore '{first}' still reads this backup: wait for its end, or cancel it"));
    }
    match known.location_state {
        LocationState::Usable => Ok(Extent::Everything),
        LocationState::ReadOnly => Err(format!(
            "cannot delete backup because backup storage location '{location}' is currently in read-only mode"
        )),
        LocationState::NotFound => Err(format!(
            "backup storage location '{location}' not found: make it again, or delete the Backup object with kubectl"
        )),
        LocationState::Unavailable | LocationState::Unknown => Err(format!(
            "cannot delete backup because backup storage location '{location}' is currently unavailable; \
             its message says why"
        )),
    }
}

/// Whether a Restore has not ended.
pub fn restore_runs(restore: &Value) -> bool {
    let phase = restore.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    !matches!(phase, "Completed" | "PartiallyFailed" | "Failed" | "FailedValidation")
}

/// The phase that a Backup gets back when its deletion failed: `before`, unless an earlier try left it Deleting; then
/// that of the file in storage.
pub fn phase_after_failure(before: &BackupPhase, stored: Option<&str>) -> BackupPhase {
    match (before, stored.map(BackupPhase::from)) {
        (BackupPhase::Deleting, Some(stored)) if stored.is_terminal() => stored,
        (BackupPhase::Deleting, _) => BackupPhase::PartiallyFailed,
        (before, _) => before.clone(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn known(phase: Option<&str>, location_state: LocationState) -> Known<'static> {
        Known {
            backup: "b",
            phase: phase.map(BackupPhase::from),
            location: "default",
            location_state,
            running_restores: &[],
        }
    }

    #[rstest]
    #[case::completed("Completed", Ok(Extent::Everything))]
    #[case::failed("Failed", Ok(Extent::Everything))]
    #[case::an_earlier_try("Deleting", Ok(Extent::Everything))]
    #[case::never_began("FailedValidation", Ok(Extent::ObjectOnly))]
    #[case::queued("Queued", Ok(Extent::ObjectOnly))]
    #[case::runs("InProgress", Err("still in progress"))]
    #[case::finalizing("Finalizing", Err("still in progress"))]
    fn a_backup_is_deleted_unless_it_runs(#[case] phase: &str, #[case] expected: Result<Extent, &str>) {
        match (admit(&known(Some(phase), LocationState::Usable)), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        }
    }

    #[rstest]
    #[case::read_only(LocationState::ReadOnly, "read-only")]
    #[case::gone(LocationState::NotFound, "not found")]
    #[case::unavailable(LocationState::Unavailable, "unavailable")]
    fn a_location_that_cannot_be_written_keeps_its_backups(
        #[case] state: LocationState,
        #[case] words: &str,
    ) {
        let refused = admit(&known(Some("Completed"), state)).unwrap_err();
        assert!(refused.contains(words), "{refused}");
        assert_eq!(admit(&known(Some("FailedValidation"), state)), Ok(Extent::ObjectOnly));
    }

    #[test]
    fn a_backup_that_is_not_there_and_one_that_is_read_are_refused() {
        assert!(admit(&known(None, LocationState::Usable)).unwrap_err().contains("not found"));
        let restores = ["r".to_owned()];
        let read = Known { running_restores: &restores, ..known(Some("Completed"), LocationState::Usable) };
        assert!(admit(&read).unwrap_err().contains("'r'"));
    }

    #[rstest]
    #[case::new(json!({"metadata": {}}), RequestPlan::Work)]
    #[case::under_way(json!({"status": {"phase": "InProgress"}}), RequestPlan::Work)]
    #[case::answered(
        json!({"metadata": {"creationTimestamp": "1970-01-01T00:00:00Z"}, "status": {"phase": "Processed"}}),
        RequestPlan::KeepFor(Duration::from_hours(23))
    )]
    #[case::answered_long_ago(
        json!({"metadata": {"creationTimestamp": "1969-12-31T00:00:00Z"}, "status": {"phase": "Processed"}}),
        RequestPlan::Remove
    )]
    #[case::answered_without_a_time(json!({"status": {"phase": "Processed"}}), RequestPlan::Remove)]
    fn an_answered_request_is_kept_for_a_day(#[case] request: Value, #[case] expected: RequestPlan) {
        assert_eq!(plan(&request, Timestamp::from_second(3600).unwrap()), expected);
    }

    #[rstest]
    #[case::first_try("Completed", None, "Completed")]
    #[case::second_try("Deleting", Some("Failed"), "Failed")]
    #[case::nothing_known("Deleting", None, "PartiallyFailed")]
    #[case::half_done("Deleting", Some("Finalizing"), "PartiallyFailed")]
    fn a_backup_that_stays_gets_its_phase_back(
        #[case] before: &str,
        #[case] stored: Option<&str>,
        #[case] expected: &str,
    ) {
        assert_eq!(phase_after_failure(&before.into(), stored).as_str(), expected);
    }
}
