//! Kind RestoreSession: one restore into one target.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::backup_session::SnapshotStats;
use super::cel;
use super::host_run::HostRun;
use super::invoker::{self, Driver};
use super::limits;
use super::member::RestoreMember;
use super::reference::ObjectRef;
use super::standstill::StoppedWorkload;
use crate::common::{Condition, GoDuration, Time, string_enum};

/// Target to restore, and the repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "stash.appscode.com",
    version = "v1beta1",
    kind = "RestoreSession",
    namespaced,
    status = "RestoreSessionStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "One restore into one target.",
    shortname = "restore",
    category = "lifeboat",
    category = "stash",
    printcolumn(name = "Repository", type_ = "string", json_path = ".spec.repository.name"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Duration", type_ = "string", json_path = ".status.sessionDuration"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message")
)]
#[x_kube(validation = invoker::repository_for_restic())]
#[x_kube(validation = cel::immutable())]
#[serde(rename_all = "camelCase")]
pub struct RestoreSessionSpec {
    /// The target and how it is restored. `rules` beside the target is the deprecated place.
    #[serde(flatten)]
    pub member: RestoreMember,
    /// How data is stored: Restic or VolumeSnapshotter.
    #[serde(default)]
    pub driver: Driver,
    /// Repository that holds the data. Not needed by driver VolumeSnapshotter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<ObjectRef>,
    /// How long the restore may take, such as "2h"; after that it is stopped and Failed. Default: no
    /// limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::TIME))]
    #[x_kube(validation = cel::duration())]
    pub time_out: Option<GoDuration>,
}

string_enum! {
    /// Phases of a restore.
    pub enum RestorePhase {
        /// Not started, or waiting for something that its conditions name.
        Pending = "Pending",
        /// Running.
        Running = "Running",
        /// All hosts succeeded.
        Succeeded = "Succeeded",
        /// At least one host failed.
        Failed = "Failed",
        /// The result is not known.
        Unknown = "Unknown",
        /// The spec is invalid.
        Invalid = "Invalid",
    }
}

string_enum! {
    /// Phase of the restore of one host.
    pub enum HostRestorePhase {
        /// Not started.
        Pending = "Pending",
        /// All requested data was restored.
        Succeeded = "Succeeded",
        /// Not all data was restored; see `error`.
        Failed = "Failed",
        /// Running.
        Running = "Running",
        /// The result is not known, for example of a claim that waits for its first pod.
        Unknown = "Unknown",
    }
}

/// Progress and result of a restore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreSessionStatus {
    /// Phase of the restore: Pending, Running, Succeeded, Failed, Unknown or Invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<RestorePhase>,
    /// What the restore waits for, or why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How many hosts are restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_hosts: Option<i32>,
    /// The PersistentVolumeClaims of the target. Sessions whose targets share a claim run one after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<String>,
    /// Time from the session's creation to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_duration: Option<GoDuration>,
    /// When the restore times out, if it has a `timeOut`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_deadline: Option<Time>,
    /// Result of each host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stats: Vec<HostRestoreStats>,
    /// The workload that the restore stops, and how far that has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standstill: Option<StoppedWorkload>,
    /// Steps of the restore: RepositoryFound, BackendSecretFound, RestoreTargetFound, RestoreJobCreated,
    /// RestoreCompleted, DeadlineExceeded and others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Result of the restore of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostRestoreStats {
    /// Name of the host that got the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Pending, Running, Succeeded, Failed or Unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<HostRestorePhase>,
    /// How long the host took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<GoDuration>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The paths that the host gets, and from which snapshots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<RestoredPath>,
    /// Copies of what the restore overwrites, in the repository; they are kept for seven days.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub safety_copies: Vec<SnapshotStats>,
    /// How the restore of the host goes on.
    #[serde(flatten)]
    pub run: HostRun,
}

/// One path that a host gets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoredPath {
    /// Id of the snapshot; with driver VolumeSnapshotter the name of the VolumeSnapshot.
    pub snapshot: String,
    /// Path in the snapshot; "/" for all of it.
    pub path: String,
    /// Whether it was restored and verified.
    #[serde(default)]
    pub restored: bool,
}
