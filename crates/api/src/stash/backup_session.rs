//! Kind BackupSession: one run of a BackupConfiguration or BackupBatch.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cel;
use super::limits;
use super::reference::TargetRef;
use crate::common::{Condition, GoDuration, Time, string_enum};

/// Whose backup this is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "stash.appscode.com",
    version = "v1beta1",
    kind = "BackupSession",
    namespaced,
    status = "BackupSessionStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "One run of a BackupConfiguration or BackupBatch.",
    category = "lifeboat",
    category = "stash",
    printcolumn(name = "Invoker-Type", type_ = "string", json_path = ".spec.invoker.kind"),
    printcolumn(name = "Invoker-Name", type_ = "string", json_path = ".spec.invoker.name"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Duration", type_ = "string", json_path = ".status.sessionDuration"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(validation = cel::immutable())]
#[serde(rename_all = "camelCase")]
pub struct BackupSessionSpec {
    /// The BackupConfiguration or BackupBatch that is run.
    pub invoker: InvokerRef,
    /// How many more times the backup is tried if this run fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub retry_left: Option<i32>,
}

/// A BackupConfiguration or BackupBatch of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InvokerRef {
    /// "stash.appscode.com", if it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// BackupConfiguration or BackupBatch.
    pub kind: InvokerKind,
    /// Name of the invoker.
    #[schemars(length(min = 1, max = limits::NAME))]
    pub name: String,
}

string_enum! {
    /// The kinds that have BackupSessions.
    #[derive(Default)]
    pub enum InvokerKind {
        /// One target.
        #[default]
        BackupConfiguration = "BackupConfiguration",
        /// Several targets.
        BackupBatch = "BackupBatch",
    }
}

string_enum! {
    /// How far a backup has come.
    pub enum BackupSessionPhase {
        /// Not begun.
        Pending = "Pending",
        /// Not done, because another run was under way or the invoker was not ready.
        Skipped = "Skipped",
        /// Under way.
        Running = "Running",
        /// Done, every host of it.
        Succeeded = "Succeeded",
        /// Done, not every host of it.
        Failed = "Failed",
        /// Nobody can tell.
        Unknown = "Unknown",
    }
}

string_enum! {
    /// How far the backup of one target has come.
    pub enum TargetPhase {
        /// Not begun.
        Pending = "Pending",
        /// Done, every host of it.
        Succeeded = "Succeeded",
        /// Under way.
        Running = "Running",
        /// Done, not every host of it.
        Failed = "Failed",
    }
}

string_enum! {
    /// What came of the backup of one host.
    pub enum HostBackupPhase {
        /// Every path is in a snapshot.
        Succeeded = "Succeeded",
        /// Not every path is; `error` says why.
        Failed = "Failed",
    }
}

/// What has come of a backup so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupSessionStatus {
    /// How far the backup has come: Pending, Skipped, Running, Succeeded, Failed or Unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<BackupSessionPhase>,
    /// Time from the session's creation to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_duration: Option<GoDuration>,
    /// When the backup fails for taking too long, if its invoker has a `timeOut`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_deadline: Option<Time>,
    /// Whether the session failed and was followed by another try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retried: Option<bool>,
    /// When the next try begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_retry: Option<Time>,
    /// How far each target has come.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<BackupTargetStatus>,
    /// Steps of the session as a whole: BackendRepositoryInitialized, RetentionPolicyApplied,
    /// RepositoryIntegrityVerified, BackupSkipped, DeadlineExceeded and others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// How far the backup of one target has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupTargetStatus {
    /// The target.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<TargetRef>,
    /// How many hosts the target has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_hosts: Option<i32>,
    /// Pending, Running, Succeeded or Failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<TargetPhase>,
    /// What came of each host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stats: Vec<HostBackupStats>,
    /// What is done for the whole session before this target's backup: InitializeBackendRepository.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pre_backup_actions: Vec<String>,
    /// What is done for the whole session after this target's backup: ApplyRetentionPolicy,
    /// VerifyRepositoryIntegrity, SendRepositoryMetrics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub post_backup_actions: Vec<String>,
    /// Steps of this target: BackupExecutorEnsured, PreBackupHookExecutionSucceeded and others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// What came of the backup of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostBackupStats {
    /// Name of the host in the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Succeeded or Failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<HostBackupPhase>,
    /// The snapshots that were made, one for each path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snapshots: Vec<SnapshotStats>,
    /// How long the host took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<GoDuration>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One snapshot that was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotStats {
    /// Id of the snapshot in the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Path that it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Size of what it holds, such as "1.234 GiB".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_size: Option<String>,
    /// Size of what was new and had to be sent, such as "12.5 MiB".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uploaded: Option<String>,
    /// How long it took, as minutes and seconds ("1:05").
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processing_time: Option<String>,
    /// How many files it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_stats: Option<FileStats>,
}

/// Numbers of files in a snapshot, compared with the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileStats {
    /// All files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_files: Option<i64>,
    /// Files that were not there before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_files: Option<i64>,
    /// Files that have changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_files: Option<i64>,
    /// Files that are as they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmodified_files: Option<i64>,
}
