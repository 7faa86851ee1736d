//! How far a Restore has come.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{Time, string_enum};
use crate::velero::HookStatus;

string_enum! {
    /// Where a Restore stands.
    pub enum RestorePhase {
        /// Created, and not looked at yet.
        New = "New",
        /// Will not run: the specification is wrong, `validationErrors` says why.
        FailedValidation = "FailedValidation",
        /// Objects are being created.
        InProgress = "InProgress",
        /// Objects are created; plugins or movers still work on volume data.
        WaitingForPluginOperations = "WaitingForPluginOperations",
        /// The same, with errors so far: it will end PartiallyFailed.
        WaitingForPluginOperationsPartiallyFailed = "WaitingForPluginOperationsPartiallyFailed",
        /// All work has ended; the last steps run.
        Finalizing = "Finalizing",
        /// The same, with errors: it will end PartiallyFailed.
        FinalizingPartiallyFailed = "FinalizingPartiallyFailed",
        /// Ended without an error.
        Completed = "Completed",
        /// Ended, with errors on some objects or volumes.
        PartiallyFailed = "PartiallyFailed",
        /// Could not do its work; `failureReason` says why.
        Failed = "Failed",
    }
}

impl RestorePhase {
    /// Whether the restore has ended, well or not.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::FailedValidation | Self::Completed | Self::PartiallyFailed | Self::Failed)
    }
}

/// How far a Restore has come and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreStatus {
    /// Where the restore stands. Completed, PartiallyFailed, Failed and FailedValidation are ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<RestorePhase>,
    /// What is wrong with the specification, one sentence for each problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation_errors: Option<Vec<String>>,
    /// Number of warnings. Their text is in the restore's log and results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warnings: Option<i64>,
    /// Number of errors. Their text is in the restore's log and results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<i64>,
    /// What made the whole restore fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// When work began, by the server's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_timestamp: Option<Time>,
    /// When work ended, well or not, by the server's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_timestamp: Option<Time>,
    /// Number of objects restored so far. It may lag behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<RestoreProgress>,
    /// Number of operations that plugins began in the background.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore_item_operations_attempted: Option<i64>,
    /// Number of those that ended well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore_item_operations_completed: Option<i64>,
    /// Number of those that ended with an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore_item_operations_failed: Option<i64>,
    /// Number of hooks that ran and that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hook_status: Option<HookStatus>,
}

/// Number of objects in a restore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreProgress {
    /// Number of objects to restore, as known now; it changes while the work goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_items: Option<i64>,
    /// Number of objects restored so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items_restored: Option<i64>,
}
