//! Progress of operations, snapshots and volumes.

use std::collections::BTreeMap;
use std::time::SystemTime;

use lifeboat_plugin_protocol::{generated, lifeboat};

/// The progress of an operation that an action started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperationProgress {
    /// Ended, successfully or not.
    pub completed: bool,
    /// Why it failed; empty if there is no error.
    pub error: String,
    pub done: i64,
    /// Zero if it is unknown.
    pub total: i64,
    /// The unit: `bytes`.
    pub units: String,
    pub description: String,
    pub started: Option<SystemTime>,
    pub updated: Option<SystemTime>,
}

impl From<OperationProgress> for generated::OperationProgress {
    fn from(progress: OperationProgress) -> Self {
        Self {
            completed: progress.completed,
            err: progress.error,
            n_completed: progress.done,
            n_total: progress.total,
            operation_units: progress.units,
            description: progress.description,
            started: progress.started.map(Into::into),
            updated: progress.updated.map(Into::into),
        }
    }
}

/// The progress of a snapshot, or of a volume that is created from one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeProgress {
    /// `Completed` or `Failed` at the end; any other text, or none, before.
    pub phase: String,
    pub message: String,
    pub bytes_done: i64,
    /// Zero if it is unknown.
    pub total_bytes: i64,
    pub started: Option<SystemTime>,
    pub completed: Option<SystemTime>,
    /// Further information for users.
    pub plugin_specific: BTreeMap<String, String>,
}

impl From<VolumeProgress> for lifeboat::VolumeProgress {
    fn from(progress: VolumeProgress) -> Self {
        Self {
            phase: progress.phase,
            message: progress.message,
            bytes_done: progress.bytes_done,
            total_bytes: progress.total_bytes,
            started: progress.started.map(Into::into),
            completed: progress.completed.map(Into::into),
            plugin_specific: progress.plugin_specific.into_iter().collect(),
        }
    }
}
