//! Requests to delete a backup: when one is carried out, refused, kept and removed. Called by the controller of
//! DeleteBackupRequest.

use std::time::Duration;

use jiff::Timestamp;
use lifeboat_api::velero::BackupPhase;
use serde_json::{Value, json};

use crate::velero::garbage::LocationState;

/// How long a processed request is kept: upstream's value.
pub const KEEP: Duration = Duration::from_hours(24);

/// The prefix of the failure reason of a Backup whose name another backup in storage already has: upstream's.
pub const NAME_TAKEN: &str = "backup already exists in object storage";

/// The next step for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPlan {
    /// Start or continue: every step can be repeated.
    Work,
    /// Processed; check again after this time.
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

/// What a deletion removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Files, snapshots and the object.
    Everything,
    /// Only the object: the backup never started, or the files under its name belong to another backup.
    ObjectOnly,
}

/// The state of `velero-backup.json`, the file that makes a directory a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    Absent,
    /// It exists, or may exist; the reason why it cannot be read.
    Unreadable(String),
    Found {
        uid: String,
        /// `status.startTimestamp`; empty if there is none.
        started: String,
    },
}

/// The identity of a Backup object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub uid: String,
    /// A server claimed this object; a synced one carries no claim.
    pub claimed: bool,
    /// `status.startTimestamp`; empty if there is none.
    pub started: String,
    pub failure: String,
}

/// The input of the decision.
#[derive(Clone, Debug)]
pub struct Known<'a> {
    pub backup: &'a str,
    /// None if the Backup does not exist.
    pub phase: Option<BackupPhase>,
    pub identity: Identity,
    /// Only read if the location is available.
    pub stored: Stored,
    /// The UID in the request's label; empty if there is none.
    pub asked_uid: &'a str,
    pub location: &'a str,
    pub location_state: LocationState,
    /// Restores of this backup that have not ended.
    pub running_restores: &'a [String],
}

/// Why a deletion is refused, for the request's errors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAdmitted {
    #[error("backup not found: there is no Backup '{backup}'")]
    NoBackup { backup: String },
    #[error(
        "the request is about the Backup '{backup}' with the UID {uid}, which is gone; the one of that name now is another: ask \
         for its deletion anew"
    )]
    OtherBackup { backup: String, uid: String },
    #[error(
        "backup is still in progress: wait for its end, or cancel it with `lifeboat backup cancel {backup}`"
    )]
    InProgress { backup: String },
    #[error("restore '{restore}' still reads this backup: wait for its end, or cancel it")]
    Read { restore: String },
    #[error(
        "cannot delete backup because backup storage location '{location}' is currently in read-only mode"
    )]
    ReadOnly { location: String },
    #[error(
        "backup storage location '{location}' not found: create it again, or delete the Backup object with kubectl"
    )]
    NoLocation { location: String },
    #[error(
        "cannot delete backup because backup storage location '{location}' is currently unavailable; its message says why"
    )]
    Unavailable { location: String },
    #[error(
        "cannot determine whether the files below 'backups/{backup}/' belong to this backup, so all of them remain: \
         'backups/{backup}/velero-backup.json' {problem}; remove or repair that file, then request the deletion again"
    )]
    UnknownFiles { backup: String, problem: String },
}

/// Whether the deletion may start, and what it removes.
pub fn admit(known: &Known<'_>) -> Result<Extent, NotAdmitted> {
    let (backup, location) = (known.backup.to_owned(), known.location.to_owned());
    match &known.phase {
        None => return Err(NotAdmitted::NoBackup { backup }),
        Some(_) if !known.asked_uid.is_empty() && known.asked_uid != known.identity.uid => {
            return Err(NotAdmitted::OtherBackup { backup, uid: known.asked_uid.to_owned() });
        }
        Some(
            BackupPhase::ReadyToStart
            | BackupPhase::InProgress
            | BackupPhase::WaitingForPluginOperations
            | BackupPhase::WaitingForPluginOperationsPartiallyFailed
            | BackupPhase::Finalizing
            | BackupPhase::FinalizingPartiallyFailed,
        ) => {
            return Err(NotAdmitted::InProgress { backup });
        }
        Some(BackupPhase::New | BackupPhase::Queued | BackupPhase::FailedValidation) => {
            return Ok(Extent::ObjectOnly);
        }
        Some(phase) => {
            if known.location_state == LocationState::Usable
                && owns_files(known, phase)? == Extent::ObjectOnly
            {
                return Ok(Extent::ObjectOnly);
            }
        }
    }
    if let [first, ..] = known.running_restores {
        return Err(NotAdmitted::Read { restore: first.clone() });
    }
    match known.location_state {
        LocationState::Usable => Ok(Extent::Everything),
        LocationState::ReadOnly => Err(NotAdmitted::ReadOnly { location }),
        LocationState::NotFound => Err(NotAdmitted::NoLocation { location }),
        LocationState::Unavailable | LocationState::Unknown => Err(NotAdmitted::Unavailable { location }),
    }
}

/// Whether the files under the name belong to this object. The name alone proves nothing: a second cluster, or a
/// recreated object, may have the same one. If it cannot be determined, nothing is deleted.
fn owns_files(known: &Known<'_>, phase: &BackupPhase) -> Result<Extent, NotAdmitted> {
    let Known { backup, identity, .. } = known;
    let never_began = *phase == BackupPhase::Failed && !identity.claimed && identity.started.is_empty();
    match &known.stored {
        // An earlier attempt removed the files first, or they were never completely written.
        Stored::Absent if identity.failure.contains(NAME_TAKEN) || never_began => Ok(Extent::ObjectOnly),
        Stored::Absent => Ok(Extent::Everything),
        Stored::Found { uid, .. } if *uid == identity.uid => Ok(Extent::Everything),
        Stored::Found { .. } if identity.claimed || never_began => Ok(Extent::ObjectOnly),
        // A synced object has its own UID, and the timestamps of the file.
        Stored::Found { started, .. } if *started == identity.started => Ok(Extent::Everything),
        Stored::Found { .. } => Ok(Extent::ObjectOnly),
        Stored::Unreadable(problem) => {
            Err(NotAdmitted::UnknownFiles { backup: (*backup).to_owned(), problem: problem.clone() })
        }
    }
}

/// Whether a Restore has not ended.
pub fn restore_runs(restore: &Value) -> bool {
    let phase = restore.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    !matches!(phase, "Completed" | "PartiallyFailed" | "Failed" | "FailedValidation")
}

/// The status of a Backup whose deletion failed. `stored` is the phase of the file in storage, None if it is gone or
/// cannot be read; `begun` says whether files were being removed. If some files may be gone, the backup must not look
/// complete.
pub fn status_after_failure(before: &BackupPhase, stored: Option<&str>, begun: bool) -> Value {
    let kept = stored.map(BackupPhase::from).filter(BackupPhase::is_terminal);
    let touched = begun || *before == BackupPhase::Deleting;
    match kept {
        None if touched => json!({
            "phase": BackupPhase::Failed.as_str(),
            "failureReason": "partly deleted: the errors of the DeleteBackupRequest say what remains; delete it again",
        }),
        Some(kept) if *before == BackupPhase::Deleting => json!({"phase": kept.as_str()}),
        _ => json!({"phase": before.as_str()}),
    }
}

/// Changes that status if snapshots of volumes are gone: the backup must not look complete.
pub fn without_snapshots(mut status: Value) -> Value {
    if status["phase"] == BackupPhase::Completed.as_str() {
        status["phase"] = BackupPhase::PartiallyFailed.as_str().into();
    }
    if status.get("failureReason").is_none() {
        status["failureReason"] = "partly deleted: snapshots of its volumes are gone; the errors of the DeleteBackupRequest say what remains; delete it again".into();
    }
    status
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
            identity: Identity { uid: "u".into(), claimed: true, ..Identity::default() },
            stored: Stored::Found { uid: "u".into(), started: String::new() },
            asked_uid: "",
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
            (Err(found), Err(expected)) => assert!(found.to_string().contains(expected), "{found}"),
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        }
    }

    #[rstest]
    #[case::read_only(LocationState::ReadOnly, "read-only")]
    #[case::gone(LocationState::NotFound, "not found")]
    #[case::unavailable(LocationState::Unavailable, "unavailable")]
    fn a_location_that_cannot_be_written_keeps_its_backups(
        #[case] state: LocationState,
        #[case] expected: &str,
    ) {
        let refused = admit(&known(Some("Completed"), state)).unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}");
        assert_eq!(admit(&known(Some("FailedValidation"), state)), Ok(Extent::ObjectOnly));
    }

    #[test]
    fn a_backup_that_is_not_there_and_one_that_is_read_are_refused() {
        assert!(admit(&known(None, LocationState::Usable)).unwrap_err().to_string().contains("not found"));
        let restores = ["r".to_owned()];
        let read = Known { running_restores: &restores, ..known(Some("Completed"), LocationState::Usable) };
        assert!(admit(&read).unwrap_err().to_string().contains("'r'"));
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
    #[case::first_try("Completed", None, false, "Completed")]
    #[case::files_are_whole("Completed", Some("Completed"), true, "Completed")]
    #[case::files_are_gone("Completed", None, true, "Failed")]
    #[case::second_try("Deleting", Some("PartiallyFailed"), false, "PartiallyFailed")]
    #[case::nothing_known("Deleting", None, false, "Failed")]
    #[case::half_done("Deleting", Some("Finalizing"), true, "Failed")]
    fn a_backup_that_stays_gets_its_phase_back_only_while_it_is_whole(
        #[case] before: &str,
        #[case] stored: Option<&str>,
        #[case] begun: bool,
        #[case] expected: &str,
    ) {
        assert_eq!(status_after_failure(&before.into(), stored, begun)["phase"], expected);
    }

    #[rstest]
    #[case("Completed", "PartiallyFailed")]
    #[case("PartiallyFailed", "PartiallyFailed")]
    #[case("Failed", "Failed")]
    fn a_backup_without_its_snapshots_is_none_that_completed(#[case] before: &str, #[case] expected: &str) {
        let status = without_snapshots(json!({"phase": before}));
        assert_eq!(status["phase"], expected);
        assert!(status["failureReason"].as_str().is_some_and(|reason| reason.starts_with("partly deleted")));
    }

    fn found(uid: &str, started: &str) -> Stored {
        Stored::Found { uid: uid.into(), started: started.into() }
    }

    #[rstest]
    #[case::its_own(true, "1", "", found("u", "1"), Some(Extent::Everything))]
    #[case::of_the_same_second(true, "1", "", found("other", "1"), Some(Extent::ObjectOnly))]
    #[case::synced(false, "1", "", found("other", "1"), Some(Extent::Everything))]
    #[case::a_strangers(false, "2", "", found("other", "1"), Some(Extent::ObjectOnly))]
    #[case::never_began(false, "", "cancelled", found("other", ""), Some(Extent::ObjectOnly))]
    #[case::only_a_log(true, "1", "cancelled", Stored::Absent, Some(Extent::Everything))]
    #[case::another_is_written(
        true,
        "1",
        "backup already exists in object storage: x",
        Stored::Absent,
        Some(Extent::ObjectOnly)
    )]
    #[case::unreadable(true, "1", "", Stored::Unreadable("is no JSON".into()), None)]
    fn only_files_of_the_very_backup_are_deleted(
        #[case] claimed: bool,
        #[case] started: &str,
        #[case] failure: &str,
        #[case] stored: Stored,
        #[case] expected: Option<Extent>,
    ) {
        let identity =
            Identity { uid: "u".into(), claimed, started: started.into(), failure: failure.into() };
        let known = Known { identity, stored, ..known(Some("Failed"), LocationState::Usable) };
        assert_eq!(admit(&known).ok(), expected);
    }

    #[test]
    fn a_request_for_another_object_of_the_name_is_refused() {
        let known = Known { asked_uid: "old", ..known(Some("Completed"), LocationState::Usable) };
        assert!(admit(&known).unwrap_err().to_string().contains("old"));
    }
}
