//! Expired backups: the next step for each. Called by the garbage collection.

use jiff::Timestamp;
use lifeboat_api::velero::{AccessMode, BackupPhase, BackupStorageLocation, names};
use serde_json::{Value, json};

use crate::label;
use crate::velero::ownership::EXPIRATION_UNPROVEN;

/// The state of an expired backup's location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocationState {
    Usable,
    /// Checked and not usable; it may become available again.
    Unavailable,
    ReadOnly,
    NotFound,
    /// The API server did not answer.
    Unknown,
}

impl LocationState {
    pub fn of(location: &BackupStorageLocation) -> Self {
        use lifeboat_api::velero::BackupStorageLocationPhase::Available;
        if location.phase() != Some(&Available) {
            Self::Unavailable
        } else if location.spec.access_mode == Some(AccessMode::ReadOnly) {
            Self::ReadOnly
        } else {
            Self::Usable
        }
    }
}

/// The next step for a backup.
#[derive(Clone, Debug, PartialEq)]
pub enum GarbagePlan {
    Keep,
    /// Request its deletion. `unlabel`: remove the label of an earlier failure.
    Request {
        unlabel: bool,
    },
    /// It cannot be deleted; the value of upstream's label with the reason.
    Label(&'static str),
}

/// Whether the backup has expired; a backup that has not ended never has, nor has one whose date only a bucket vouches
/// for. `now`: the earlier one of two clocks.
pub fn has_expired(backup: &Value, now: Timestamp) -> bool {
    let text = |path: &str| backup.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let ended = matches!(
        BackupPhase::from(text("/status/phase")),
        BackupPhase::Completed
            | BackupPhase::PartiallyFailed
            | BackupPhase::Failed
            | BackupPhase::FailedValidation
    );
    let proven =
        backup.pointer("/metadata/annotations").and_then(|all| all.get(EXPIRATION_UNPROVEN)).is_none();
    ended
        && proven
        && text("/status/expiration").parse::<Timestamp>().is_ok_and(|expiration| expiration <= now)
}

/// Decides for an expired backup. `pending`: its deletion was requested and has not been processed.
pub fn plan(backup: &Value, location: LocationState, pending: bool) -> GarbagePlan {
    let labels = backup.pointer("/metadata/labels");
    let shown = labels.and_then(|labels| labels.get(names::GC_FAILURE)).and_then(Value::as_str);
    let label = |reason| if shown == Some(reason) { GarbagePlan::Keep } else { GarbagePlan::Label(reason) };
    match location {
        LocationState::NotFound => label("BSLNotFound"),
        LocationState::Unknown => label("BSLCannotGet"),
        LocationState::ReadOnly => label("BSLReadOnly"),
        LocationState::Unavailable => GarbagePlan::Keep,
        LocationState::Usable if pending => GarbagePlan::Keep,
        LocationState::Usable => GarbagePlan::Request { unlabel: shown.is_some() },
    }
}

/// A DeleteBackupRequest that is never stored: its creation time is the time of the API server.
pub fn clock_probe() -> Value {
    json!({
        "apiVersion": "velero.io/v1",
        "kind": "DeleteBackupRequest",
        "metadata": {"generateName": "clock-"},
        "spec": {"backupName": "clock"},
    })
}

/// The DeleteBackupRequest for a backup, as stock clients create it.
pub fn request(backup: &str, uid: &str) -> Value {
    json!({
        "apiVersion": "velero.io/v1",
        "kind": "DeleteBackupRequest",
        "metadata": {
            "generateName": format!("{backup}-"),
            "labels": {names::BACKUP_NAME: label::value(backup), names::BACKUP_UID: uid},
        },
        "spec": {"backupName": backup},
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn backup(phase: &str, label: Option<&str>) -> Value {
        let mut backup = json!({
            "metadata": {"name": "b", "labels": {}},
            "status": {"phase": phase, "expiration": "1970-01-01T00:01:40Z"},
        });
        if let Some(label) = label {
            backup["metadata"]["labels"][names::GC_FAILURE] = label.into();
        }
        backup
    }

    #[rstest]
    #[case::before("Completed", 99, false)]
    #[case::after("Completed", 100, true)]
    #[case::failed("Failed", 100, true)]
    #[case::runs("InProgress", 100, false)]
    #[case::goes("Deleting", 100, false)]
    fn a_backup_expires_once_it_has_ended(#[case] phase: &str, #[case] now: i64, #[case] expected: bool) {
        assert_eq!(has_expired(&backup(phase, None), Timestamp::from_second(now).unwrap()), expected);
    }

    #[test]
    fn a_backup_without_a_time_to_live_stays() {
        assert!(!has_expired(&json!({"status": {"phase": "Completed"}}), Timestamp::MAX));
    }

    #[rstest]
    #[case::usable(LocationState::Usable, None, false, GarbagePlan::Request { unlabel: false })]
    #[case::usable_again(LocationState::Usable, Some("BSLReadOnly"), false, GarbagePlan::Request { unlabel: true })]
    #[case::asked_for(LocationState::Usable, None, true, GarbagePlan::Keep)]
    #[case::unavailable(LocationState::Unavailable, None, false, GarbagePlan::Keep)]
    #[case::read_only(LocationState::ReadOnly, None, false, GarbagePlan::Label("BSLReadOnly"))]
    #[case::told_already(LocationState::ReadOnly, Some("BSLReadOnly"), false, GarbagePlan::Keep)]
    #[case::gone(LocationState::NotFound, None, false, GarbagePlan::Label("BSLNotFound"))]
    #[case::not_told(LocationState::Unknown, None, false, GarbagePlan::Label("BSLCannotGet"))]
    fn an_expired_backup_goes_or_says_why_not(
        #[case] location: LocationState,
        #[case] label: Option<&str>,
        #[case] pending: bool,
        #[case] expected: GarbagePlan,
    ) {
        assert_eq!(plan(&backup("Completed", label), location, pending), expected);
    }

    #[test]
    fn a_request_carries_upstreams_labels() {
        let request = request(&"b".repeat(70), "u");
        let label = request["metadata"]["labels"][names::BACKUP_NAME].as_str().unwrap();
        assert_eq!(label.len(), 63);
        assert_eq!(request["spec"]["backupName"].as_str().unwrap().len(), 70);
    }
}
