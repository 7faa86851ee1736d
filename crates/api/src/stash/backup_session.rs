//! Kind BackupSession: one run of a BackupConfiguration, BackupBatch or Restic.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cel;
use super::host_run::HostRun;
use super::limits;
use super::reference::TargetRef;
use crate::common::{Condition, GoDuration, Time, string_enum};

/// The invoker of this session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "stash.appscode.com",
    version = "v1beta1",
    kind = "BackupSession",
    namespaced,
    status = "BackupSessionStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "One run of a BackupConfiguration, BackupBatch or Restic.",
    category = "lifeboat",
    category = "stash",
    printcolumn(name = "Invoker-Type", type_ = "string", json_path = ".spec.invoker.kind"),
    printcolumn(name = "Invoker-Name", type_ = "string", json_path = ".spec.invoker.name"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Duration", type_ = "string", json_path = ".status.sessionDuration"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message")
)]
#[x_kube(validation = cel::immutable())]
#[serde(rename_all = "camelCase")]
pub struct BackupSessionSpec {
    /// The BackupConfiguration, BackupBatch or Restic that is run.
    pub invoker: InvokerRef,
    /// How many retries are left if this session fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub retry_left: Option<i32>,
}

/// A BackupConfiguration, BackupBatch or Restic of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InvokerRef {
    /// "stash.appscode.com", if set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// BackupConfiguration, BackupBatch or Restic.
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
        /// The workloads that a selector matches.
        Restic = "Restic",
    }
}

string_enum! {
    /// Phases of a backup.
    pub enum BackupSessionPhase {
        /// Not started.
        Pending = "Pending",
        /// Skipped, because another session was running or the invoker was not ready.
        Skipped = "Skipped",
        /// Running.
        Running = "Running",
        /// All hosts succeeded.
        Succeeded = "Succeeded",
        /// At least one host failed.
        Failed = "Failed",
        /// The result is not known.
        Unknown = "Unknown",
    }
}

string_enum! {
    /// Phases of the backup of one target.
    pub enum TargetPhase {
        /// Not started.
        Pending = "Pending",
        /// All hosts succeeded.
        Succeeded = "Succeeded",
        /// Running.
        Running = "Running",
        /// At least one host failed.
        Failed = "Failed",
    }
}

string_enum! {
    /// Phase of the backup of one host.
    pub enum HostBackupPhase {
        /// Not started.
        Pending = "Pending",
        /// Running.
        Running = "Running",
        /// Every path was stored in a snapshot.
        Succeeded = "Succeeded",
        /// At least one path was not stored; see `error`.
        Failed = "Failed",
    }
}

/// Progress and result of a backup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupSessionStatus {
    /// Phase of the backup: Pending, Skipped, Running, Succeeded, Failed or Unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<BackupSessionPhase>,
    /// What the session waits for, or why it was skipped or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Time from the session's creation to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_duration: Option<GoDuration>,
    /// When the backup times out, if its invoker has a `timeOut`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_deadline: Option<Time>,
    /// Whether the session failed and was retried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retried: Option<bool>,
    /// When the next retry starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_retry: Option<Time>,
    /// Progress of each target.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<BackupTargetStatus>,
    /// How many targets succeeded and are not listed, because the session had more than 100 targets and has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeded_targets: Option<i32>,
    /// Steps of the session as a whole: BackendRepositoryInitialized, RetentionPolicyApplied,
    /// RepositoryIntegrityVerified, BackupSkipped, DeadlineExceeded and others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Progress of the backup of one target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupTargetStatus {
    /// The target.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<TargetRef>,
    /// How many hosts the target has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_hosts: Option<i32>,
    /// The PersistentVolumeClaims of the target. Sessions whose targets share a claim run one after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<String>,
    /// Pending, Running, Succeeded or Failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<TargetPhase>,
    /// Result of each host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stats: Vec<HostBackupStats>,
    /// Actions for the whole session before this target's backup: InitializeBackendRepository.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pre_backup_actions: Vec<String>,
    /// Actions for the whole session after this target's backup: ApplyRetentionPolicy,
    /// VerifyRepositoryIntegrity, SendRepositoryMetrics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub post_backup_actions: Vec<String>,
    /// Steps of this target: BackupExecutorEnsured, PreBackupHookExecutionSucceeded and others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Result of the backup of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostBackupStats {
    /// Name of the host in the repository; with driver VolumeSnapshotter the name of the claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Pending, Running, Succeeded or Failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<HostBackupPhase>,
    /// The snapshots that were created, one for each path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snapshots: Vec<SnapshotStats>,
    /// How long the host took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<GoDuration>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How the backup of the host goes on.
    #[serde(flatten)]
    pub run: HostRun,
}

/// One snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotStats {
    /// Id of the snapshot in the repository; with driver VolumeSnapshotter the name of the VolumeSnapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Path that was backed up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Name of the volume, in a session of a Restic, which may have two volumes at one path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// Size of the data in it, such as "1.234 GiB"; of a VolumeSnapshot the size of its volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_size: Option<String>,
    /// Size of the new data that was uploaded, such as "12.5 MiB".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uploaded: Option<String>,
    /// How long it took, as minutes and seconds ("1:05").
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processing_time: Option<String>,
    /// Number of files.
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
    /// New files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_files: Option<i64>,
    /// Modified files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_files: Option<i64>,
    /// Unmodified files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmodified_files: Option<i64>,
}
