//! The phases of a Backup and the status patches for them. Takes the events and the time; gives the patch to merge.

use jiff::Timestamp;
use lifeboat_api::common::GoDuration;
use lifeboat_api::common::time::seconds;
use lifeboat_api::velero::BackupPhase;
use serde_json::{Value, json};

/// The archive format that Lifeboat writes.
pub const FORMAT_VERSION: &str = "1.1.0";

/// The counters of a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub items: usize,
    pub warnings: usize,
    pub errors: usize,
    pub hooks_attempted: usize,
    pub hooks_failed: usize,
    pub operations: usize,
    pub operations_open: usize,
    pub operations_failed: usize,
    pub snapshots: usize,
    pub snapshots_failed: usize,
    /// Native snapshots whose plugins are still working.
    pub snapshots_open: usize,
    /// CSI snapshots that were requested, and those that are ready.
    pub csi_snapshots: usize,
    pub csi_ready: usize,
}

/// The phase after the pass.
pub fn after_pass(counts: &Counts) -> BackupPhase {
    match (counts.operations_open + counts.snapshots_open > 0, counts.errors > 0) {
        (true, false) => BackupPhase::WaitingForPluginOperations,
        (true, true) => BackupPhase::WaitingForPluginOperationsPartiallyFailed,
        (false, false) => BackupPhase::Finalizing,
        (false, true) => BackupPhase::FinalizingPartiallyFailed,
    }
}

/// The final phase of a backup that is being finalized; None for other phases.
pub fn finalized(phase: &BackupPhase) -> Option<BackupPhase> {
    match phase {
        BackupPhase::Finalizing => Some(BackupPhase::Completed),
        BackupPhase::FinalizingPartiallyFailed => Some(BackupPhase::PartiallyFailed),
        _ => None,
    }
}

/// The status when the pass starts. A further attempt keeps the start and expiration of the first one.
pub fn started(status: &Value, ttl: GoDuration, now: Timestamp) -> Value {
    let given = |field: &str| status.get(field).and_then(Value::as_str).map(str::to_owned);
    let expires = now.checked_add(ttl.to_signed()).unwrap_or(Timestamp::MAX);
    json!({
        "version": 1,
        "formatVersion": FORMAT_VERSION,
        "phase": BackupPhase::InProgress.as_str(),
        "queuePosition": null,
        "validationErrors": null,
        "startTimestamp": given("startTimestamp").unwrap_or_else(|| seconds(now)),
        "expiration": given("expiration").unwrap_or_else(|| seconds(expires)),
    })
}

/// The status after the pass. Zeros are omitted, as by upstream's encoder.
pub fn passed(counts: &Counts) -> Value {
    let number = |count: usize| if count == 0 { Value::Null } else { json!(count) };
    json!({
        "phase": after_pass(counts).as_str(),
        "warnings": number(counts.warnings),
        "errors": number(counts.errors),
        "progress": {"totalItems": counts.items, "itemsBackedUp": counts.items},
        "hookStatus": {
            "hooksAttempted": number(counts.hooks_attempted),
            "hooksFailed": number(counts.hooks_failed),
        },
        "volumeSnapshotsAttempted": number(counts.snapshots),
        "volumeSnapshotsCompleted": number(counts.snapshots.saturating_sub(counts.snapshots_failed)),
        "csiVolumeSnapshotsAttempted": number(counts.csi_snapshots),
        "csiVolumeSnapshotsCompleted": number(counts.csi_ready),
        "backupItemOperationsAttempted": number(counts.operations),
        "backupItemOperationsCompleted":
            number(counts.operations - counts.operations_open - counts.operations_failed),
        "backupItemOperationsFailed": number(counts.operations_failed),
    })
}

/// The status of a backup that ended without a usable result.
pub fn failed(reason: &str, now: Timestamp) -> Value {
    json!({
        "phase": BackupPhase::Failed.as_str(),
        "failureReason": reason,
        "completionTimestamp": seconds(now),
        "queuePosition": null,
    })
}

/// The status of a backup that failed validation.
pub fn refused(problems: &[String]) -> Value {
    json!({
        "version": 1,
        "formatVersion": FORMAT_VERSION,
        "phase": BackupPhase::FailedValidation.as_str(),
        "validationErrors": problems,
        "queuePosition": null,
    })
}

/// The final status.
pub fn ended(phase: &BackupPhase, now: Timestamp) -> Value {
    json!({"phase": phase.as_str(), "completionTimestamp": seconds(now)})
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, 0, BackupPhase::Finalizing, Some(BackupPhase::Completed))]
    #[case(1, 0, BackupPhase::FinalizingPartiallyFailed, Some(BackupPhase::PartiallyFailed))]
    #[case(0, 1, BackupPhase::WaitingForPluginOperations, None)]
    #[case(1, 1, BackupPhase::WaitingForPluginOperationsPartiallyFailed, None)]
    fn the_phase_follows_errors_and_open_operations(
        #[case] errors: usize,
        #[case] open: usize,
        #[case] expected: BackupPhase,
        #[case] end: Option<BackupPhase>,
    ) {
        let phase =
            after_pass(&Counts { errors, operations: open, operations_open: open, ..Counts::default() });
        assert_eq!(phase, expected);
        assert_eq!(finalized(&phase), end);
    }

    #[test]
    fn a_snapshot_that_goes_on_is_waited_for_and_one_that_failed_is_counted() {
        let counts = Counts { snapshots: 3, snapshots_failed: 1, snapshots_open: 1, ..Counts::default() };
        let status = passed(&counts);
        assert_eq!(status["phase"], "WaitingForPluginOperations");
        assert_eq!(
            (&status["volumeSnapshotsAttempted"], &status["volumeSnapshotsCompleted"]),
            (&json!(3), &json!(2))
        );
    }

    #[test]
    fn a_second_attempt_keeps_start_and_expiration() {
        let ttl = GoDuration::from_secs(3600);
        let first = started(&json!({}), ttl, Timestamp::UNIX_EPOCH);
        assert_eq!(first["startTimestamp"], "1970-01-01T00:00:00Z");
        assert_eq!(first["expiration"], "1970-01-01T01:00:00Z");
        let later = Timestamp::from_second(5000).unwrap();
        assert_eq!(started(&first, ttl, later), first);
    }

    #[test]
    fn an_endless_ttl_does_not_overflow() {
        let made = started(&json!({}), GoDuration::from_nanos(i64::MAX), Timestamp::MAX);
        assert!(made["expiration"].is_string());
    }
}
