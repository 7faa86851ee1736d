//! The status of a Backup.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{Time, string_enum};

string_enum! {
    /// Phases of a Backup.
    pub enum BackupPhase {
        /// Created; the server has not processed it yet.
        New = "New",
        /// Waits for other backups to end.
        Queued = "Queued",
        /// First in the queue; work is about to start.
        ReadyToStart = "ReadyToStart",
        /// Did not run: the specification is invalid, see `validationErrors`.
        FailedValidation = "FailedValidation",
        /// Objects are being collected and written.
        InProgress = "InProgress",
        /// Objects are written; operations (data movement, plugins) still run. Cannot be restored yet.
        WaitingForPluginOperations = "WaitingForPluginOperations",
        /// As WaitingForPluginOperations, with errors so far: it will end PartiallyFailed.
        WaitingForPluginOperationsPartiallyFailed = "WaitingForPluginOperationsPartiallyFailed",
        /// All operations have ended; the last updates of the stored objects are written. Cannot be restored
        /// yet.
        Finalizing = "Finalizing",
        /// As Finalizing, with errors: it will end PartiallyFailed.
        FinalizingPartiallyFailed = "FinalizingPartiallyFailed",
        /// Ended without an error.
        Completed = "Completed",
        /// Ended, with errors on some objects or volumes.
        PartiallyFailed = "PartiallyFailed",
        /// Ended without anything to restore; see `failureReason`.
        Failed = "Failed",
        /// The backup and its data are being deleted.
        Deleting = "Deleting",
    }
}

impl BackupPhase {
    /// Whether the backup has ended, successfully or not. `Deleting` is not an end of the backup's own work.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::FailedValidation | Self::Completed | Self::PartiallyFailed | Self::Failed)
    }
}

/// Progress and result of a Backup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupStatus {
    /// Major version of the backup format. Deprecated: use `formatVersion`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
    /// Version of the backup format, such as `1.1.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format_version: Option<String>,
    /// When the backup expires: its start plus `ttl`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiration: Option<Time>,
    /// Phase of the backup. Completed, PartiallyFailed, Failed and FailedValidation are final.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<BackupPhase>,
    /// Position in the queue, 1 being the next. Only while the phase is Queued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_position: Option<i64>,
    /// Problems of the specification, one entry each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation_errors: Option<Vec<String>>,
    /// When the backup started, by the server's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_timestamp: Option<Time>,
    /// When the backup ended, successfully or not, by the server's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_timestamp: Option<Time>,
    /// Number of snapshots requested from plugins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_snapshots_attempted: Option<i64>,
    /// Number of snapshots that plugins took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_snapshots_completed: Option<i64>,
    /// Why the whole backup failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Number of warnings. Their text is in the backup's log and results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warnings: Option<i64>,
    /// Number of errors. Their text is in the backup's log and results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<i64>,
    /// Number of objects written so far. Updated with a delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<BackupProgress>,
    /// Number of CSI snapshots that were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csi_volume_snapshots_attempted: Option<i64>,
    /// Number of CSI snapshots that were taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csi_volume_snapshots_completed: Option<i64>,
    /// Number of operations that actions started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup_item_operations_attempted: Option<i64>,
    /// Number of operations that succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup_item_operations_completed: Option<i64>,
    /// Number of operations that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup_item_operations_failed: Option<i64>,
    /// Numbers of hooks that ran and that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hook_status: Option<HookStatus>,
}

/// Number of objects in a backup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupProgress {
    /// Number of objects to back up, as known so far; it changes while the backup runs.
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
