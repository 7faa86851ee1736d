//! [`HostRun`]: how the backup or restore of one host goes on, beside its result.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{Time, string_enum};

/// Progress of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostRun {
    /// The pod whose volumes are read or written, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// UID of that pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
    /// Node on which the mover runs or ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Number of the mover that was sent, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i64>,
    /// Owners of repository locks whose end the kubelet reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dead_owners: Vec<String>,
    /// When the host started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// What the host waits for, or a remark about its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Bytes that were read or written so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_done: Option<i64>,
    /// Bytes in all, as far as they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_total: Option<i64>,
    /// Consistency of the data: Snapshot, Quiesced or Live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consistency: Option<String>,
    /// State of the hook before the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_hook: Option<HookPhase>,
    /// The pod of the hook before the host. The hook after the host runs in the same pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook_pod: Option<HookPodRef>,
    /// State of the hook after the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_hook: Option<HookPhase>,
}

/// The pod in which a hook runs. Another pod of its name has another UID.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookPodRef {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// UID of the pod.
    pub uid: String,
}

string_enum! {
    /// State of a hook of one host. `Started` is written before the hook runs, so that a server that follows
    /// a crash knows that it may have run.
    pub enum HookPhase {
        /// Its call began.
        Started = "Started",
        /// It succeeded.
        Succeeded = "Succeeded",
        /// It failed; see `error`.
        Failed = "Failed",
        /// Its execution policy did not ask for it.
        Skipped = "Skipped",
    }
}
