//! The status of a Restore.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{Time, string_enum};
use crate::velero::HookStatus;

string_enum! {
    /// Phases of a Restore.
    pub enum RestorePhase {
        /// Created; the server has not processed it yet.
        New = "New",
        /// Did not run: the specification is invalid, see `validationErrors`.
        FailedValidation = "FailedValidation",
        /// Objects are being created.
        InProgress = "InProgress",
        /// Objects are created; operations (data movement, plugins) still run.
        WaitingForPluginOperations = "WaitingForPluginOperations",
        /// As WaitingForPluginOperations, with errors so far: it will end PartiallyFailed.
        WaitingForPluginOperationsPartiallyFailed = "WaitingForPluginOperationsPartiallyFailed",
        /// All operations have ended; the last steps run.
        Finalizing = "Finalizing",
        /// As Finalizing, with errors: it will end PartiallyFailed.
        FinalizingPartiallyFailed = "FinalizingPartiallyFailed",
        /// Ended without an error.
        Completed = "Completed",
        /// Ended, with errors on some objects or volumes.
        PartiallyFailed = "PartiallyFailed",
        /// The restore could not run; see `failureReason`.
        Failed = "Failed",
    }
}

impl RestorePhase {
    /// Whether the restore has ended, successfully or not.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::FailedValidation | Self::Completed | Self::PartiallyFailed | Self::Failed)
    }
}

/// Progress and result of a Restore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreStatus {
    /// Phase of the restore. Completed, PartiallyFailed, Failed and FailedValidation are final.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<RestorePhase>,
    /// Problems of the specification, one entry each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation_errors: Option<Vec<String>>,
    /// Number of warnings. Their text is in the restore's log and results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warnings: Option<i64>,
    /// Number of errors. Their text is in the restore's log and results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<i64>,
    /// Why the whole restore failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// When the restore started, by the server's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_timestamp: Option<Time>,
    /// When the restore ended, successfully or not, by the server's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_timestamp: Option<Time>,
    /// Number of objects restored so far. Updated with a delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<RestoreProgress>,
    /// Number of operations that actions started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore_item_operations_attempted: Option<i64>,
    /// Number of operations that succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore_item_operations_completed: Option<i64>,
    /// Number of operations that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore_item_operations_failed: Option<i64>,
    /// Numbers of hooks that ran and that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hook_status: Option<HookStatus>,
}

/// Number of objects in a restore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreProgress {
    /// Number of objects to restore, as known so far; it changes while the restore runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_items: Option<i64>,
    /// Number of objects restored so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items_restored: Option<i64>,
}
