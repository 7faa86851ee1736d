//! [`StoppedWorkload`]: what a restore records about the workload that it stops.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A workload that a restore stops, because it writes into the workload's volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoppedWorkload {
    /// Kind of the workload.
    pub kind: String,
    /// Name of the workload.
    pub name: String,
    /// UID of the workload.
    pub uid: String,
    /// Number of replicas that it had, and gets back.
    pub replicas: i64,
    /// How far the restore has come: Recorded, Stopping, Stopped, SafetyCopy, Restoring, Verified, Starting, Started, HeldDown or
    /// LeftDown.
    pub step: String,
    /// Whether this restore copies what it overwrites into the repository.
    pub safety_copy: bool,
    /// The restore whose safety copy has the data from before, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety_of: Option<RestoreRef>,
    /// The restore that stops it.
    pub restore: RestoreRef,
    /// An earlier restore that failed and left the workload stopped, with half-restored data. Only a restore that succeeds starts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<RestoreRef>,
    /// Why the restore failed, and what can be done now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// A RestoreSession or RestoreBatch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreRef {
    /// RestoreSession or RestoreBatch.
    pub kind: String,
    /// Namespace of the restore.
    pub namespace: String,
    /// Name of the restore.
    pub name: String,
    /// UID of the restore.
    pub uid: String,
}
