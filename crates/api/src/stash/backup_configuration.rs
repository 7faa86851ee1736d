//! Kind BackupConfiguration: one target, backed up on a schedule.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cel;
use super::invoker::{self, Driver, InvokerPhase, RetryConfig, one};
use super::limits;
use super::member::BackupMember;
use super::reference::ObjectRef;
use super::retention::RetentionPolicy;
use crate::common::{Condition, GoDuration, Time};

/// Target to back up, schedule, repository and retention.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "stash.appscode.com",
    version = "v1beta1",
    kind = "BackupConfiguration",
    namespaced,
    status = "BackupConfigurationStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A target that is backed up on a schedule.",
    shortname = "bc",
    category = "lifeboat",
    category = "stash",
    printcolumn(name = "Task", type_ = "string", json_path = ".spec.task.name"),
    printcolumn(name = "Schedule", type_ = "string", json_path = ".spec.schedule"),
    printcolumn(name = "Paused", type_ = "boolean", json_path = ".spec.paused"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(validation = invoker::repository_for_restic())]
#[serde(rename_all = "camelCase")]
pub struct BackupConfigurationSpec {
    /// The target and how it is backed up.
    #[serde(flatten)]
    pub member: BackupMember,
    /// When to back up: five cron fields, "@daily" and the like, or "@every 1h".
    #[schemars(length(max = limits::TIME))]
    #[x_kube(validation = cel::schedule())]
    pub schedule: String,
    /// How data is stored: Restic or VolumeSnapshotter.
    #[serde(default)]
    pub driver: Driver,
    /// Repository that stores the data. Not needed by driver VolumeSnapshotter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<ObjectRef>,
    /// Which snapshots to keep.
    pub retention_policy: RetentionPolicy,
    /// Whether the schedule is paused. A BackupSession that is created by hand still runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// How many finished BackupSessions to keep.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    pub backup_history_limit: i32,
    /// How long a backup may take, such as "2h"; after that it is stopped and Failed. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::TIME))]
    #[x_kube(validation = cel::duration())]
    pub time_out: Option<GoDuration>,
    /// Whether and when a failed backup is retried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_config: Option<RetryConfig>,
}

/// Whether the backups of a BackupConfiguration run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupConfigurationStatus {
    /// Generation of the object that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions: RepositoryFound, BackendSecretFound, ValidationPassed, BackupTargetFound and
    /// CronJobCreated (the schedule is active).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Ready, NotReady or Invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<InvokerPhase>,
    /// When the last scheduled BackupSession was due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,
}
