//! How far a Backup has come.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{Time, string_enum};

string_enum! {
    /// Where a Backup stands.
    pub enum BackupPhase {
        /// Created, and not looked at yet.
        New = "New",
        /// Waits until other backups have ended.
        Queued = "Queued",
        /// Its turn has come; work is about to start.
        ReadyToStart = "ReadyToStart",
        /// Will not run: the specification is wrong, `validationErrors` says why.
        FailedValidation = "FailedValidation",
        /// Objects are being written.
        InProgress = "InProgress",
        /// Objects are written; plugins or movers still work on volume data. Not usable yet.
        WaitingForPluginOperations = "WaitingForPluginOperations",
        /// The same, with errors so far: it will end PartiallyFailed.
        WaitingForPluginOperationsPartiallyFailed = "WaitingForPluginOperationsPartiallyFailed",
        /// All work has ended; the last updates to the stored objects are written. Not usable yet.
        Finalizing = "Finalizing",
        /// The same, with errors: it will end PartiallyFailed.
        FinalizingPartiallyFailed = "FinalizingPartiallyFailed",
        /// Ended without an error.
        Completed = "Completed",
        /// Ended, with errors on some objects or volumes.
        PartiallyFailed = "PartiallyFailed",
        /// Ended without a usable result; `failureReason` says why.
        Failed = "Failed",
        /// The backup and its data are being deleted.
        Deleting = "Deleting",
    }
}

impl BackupPhase {
    /// Whether the backup's own work has ended, well or not. `Deleting` is no end of a backup but the
    /// beginning of its deletion.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::FailedValidation | Self::Completed | Self::PartiallyFailed | Self::Failed)
    }
}

/// How far a Backup has come and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupStatus {
    /// Major version of the format the backup is written in. Read `formatVersion` instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
    /// Version of the format the backup is written in, such as `1.1.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format_version: Option<String>,
    /// When the backup may be deleted: its start plus `ttl`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiration: Option<Time>,
    /// Where the backup stands. Completed, PartiallyFailed, Failed and FailedValidation are ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<BackupPhase>,
    /// Place among the waiting backups, 1 being the next. Only while the phase is Queued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_position: Option<i64>,
    /// What is wrong with the specification, one sentence for each problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation_errors: Option<Vec<String>>,
    /// When work began, by the server's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_timestamp: Option<Time>,
    /// When work ended, well or not, by the server's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_timestamp: Option<Time>,
    /// Number of volume snapshots that plugins were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_snapshots_attempted: Option<i64>,
    /// Number of volume snapshots that plugins took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_snapshots_completed: Option<i64>,
    /// What made the whole backup fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Number of warnings. Their text is in the backup's log and results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warnings: Option<i64>,
    /// Number of errors. Their text is in the backup's log and results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<i64>,
    /// Number of objects written so far. It may lag behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<BackupProgress>,
    /// Number of CSI volume snapshots that were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csi_volume_snapshots_attempted: Option<i64>,
    /// Number of CSI volume snapshots that were taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csi_volume_snapshots_completed: Option<i64>,
    /// Number of operations that plugins began in the background.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup_item_operations_attempted: Option<i64>,
    /// Number of those that ended well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup_item_operations_completed: Option<i64>,
    /// Number of those that ended with an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup_item_operations_failed: Option<i64>,
    /// Number of hooks that ran and that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hook_status: Option<HookStatus>,
}

/// Number of objects in a backup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupProgress {
    /// Number of objects to back up, as known now; it changes while the work goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_items: Option<i64>,
    /// Number of objects written so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items_backed_up: Option<i64>,
}

/// Number of hooks that ran in a backup or restore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookStatus {
    /// Number of hooks that were run, failed ones included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hooks_attempted: Option<i64>,
    /// Number of hooks that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hooks_failed: Option<i64>,
}
