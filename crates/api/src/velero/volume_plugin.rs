//! Types shared by VolumePluginBackup and VolumePluginRestore.
//!
//! Third-party plugins write both, following a design document rather than a library. Their
//! schemas therefore require no field: if the API server refused a plugin that creates its object first and
//! fills it in later, or leaves fields out, its progress would be lost. Fields are validated where they are
//! used.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much of a volume has been copied. Read it through [`Self::total_bytes`] and [`Self::bytes_done`].
///
/// The design gives the Go struct without JSON names, so a plugin built from it writes `TotalBytes`, while
/// one that follows Velero's other kinds writes `totalBytes`. Both are read, and [`Self::new`] writes both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeOperationProgress {
    /// Bytes to copy, as known so far.
    #[serde(rename = "totalBytes", skip_serializing_if = "Option::is_none")]
    pub camel_total_bytes: Option<i64>,
    /// Bytes copied so far.
    #[serde(rename = "bytesDone", skip_serializing_if = "Option::is_none")]
    pub camel_bytes_done: Option<i64>,
    /// Bytes to copy, in PascalCase.
    #[serde(rename = "TotalBytes", skip_serializing_if = "Option::is_none")]
    pub pascal_total_bytes: Option<i64>,
    /// Bytes copied so far, in PascalCase.
    #[serde(rename = "BytesDone", skip_serializing_if = "Option::is_none")]
    pub pascal_bytes_done: Option<i64>,
}

impl VolumeOperationProgress {
    /// Progress that every reader understands.
    pub fn new(bytes_done: i64, total_bytes: i64) -> Self {
        Self {
            camel_total_bytes: Some(total_bytes),
            camel_bytes_done: Some(bytes_done),
            pascal_total_bytes: Some(total_bytes),
            pascal_bytes_done: Some(bytes_done),
        }
    }

    /// Bytes to copy. If both spellings are present, the larger one: counts only grow, so it is the newer.
    pub fn total_bytes(&self) -> Option<i64> {
        self.camel_total_bytes.max(self.pascal_total_bytes)
    }

    /// Bytes copied so far; of two spellings, the larger one.
    pub fn bytes_done(&self) -> Option<i64> {
        self.camel_bytes_done.max(self.pascal_bytes_done)
    }
}

/// The phases known to the server. A plugin may write any string.
pub mod phase {
    /// The plugin has not started yet. Only plugins write it: the server's objects start with `InProgress`.
    pub const NEW: &str = "New";
    /// The plugin is working.
    pub const IN_PROGRESS: &str = "InProgress";
    /// Ended successfully.
    pub const COMPLETED: &str = "Completed";
    /// Ended without a usable result.
    pub const FAILED: &str = "Failed";
}

/// Whether an object of either kind has ended: it has a completion time, or its phase is Completed or Failed in
/// upper or lower case.
pub(super) fn has_ended(phase: Option<&str>, completed: bool) -> bool {
    let is_end = |phase: &str| {
        phase.eq_ignore_ascii_case(phase::COMPLETED) || phase.eq_ignore_ascii_case(phase::FAILED)
    };
    completed || phase.is_some_and(is_end)
}
