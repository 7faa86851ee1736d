//! Kind BackupBatch: several targets, backed up together on one schedule into one repository.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cel;
use super::hooks::BackupHooks;
use super::invoker::{self, Driver, ExecutionOrder, InvokerPhase, RetryConfig, one};
use super::limits;
use super::member::BackupMember;
use super::reference::{ObjectRef, TargetRef};
use super::retention::RetentionPolicy;
use super::runtime::RuntimeSettings;
use crate::common::{Condition, GoDuration, Time};

/// Targets to back up together, schedule, repository and retention.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "stash.appscode.com",
    version = "v1beta1",
    kind = "BackupBatch",
    plural = "backupbatches",
    namespaced,
    status = "BackupBatchStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Several targets that are backed up together on a schedule.",
    category = "lifeboat",
    category = "stash",
    printcolumn(name = "Schedule", type_ = "string", json_path = ".spec.schedule"),
    printcolumn(name = "Paused", type_ = "boolean", json_path = ".spec.paused"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(validation = invoker::repository_for_restic())]
#[x_kube(validation = invoker::orders_agree())]
#[serde(rename_all = "camelCase")]
pub struct BackupBatchSpec {
    /// The targets and how each is backed up.
    #[schemars(length(min = 1, max = limits::MEMBERS))]
    #[x_kube(validation = invoker::aliases_are_unique())]
    pub members: Vec<BackupMember>,
    /// When to back up: five cron fields, "@daily" and the like, or "@every 1h".
    #[schemars(length(max = limits::TIME))]
    #[x_kube(validation = cel::schedule())]
    pub schedule: String,
    /// Settings of the pods for the batch as a whole; members have their own settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_settings: Option<RuntimeSettings>,
    /// How data is stored: Restic or VolumeSnapshotter.
    #[serde(default)]
    pub driver: Driver,
    /// Repository that stores the data of all members. Not needed by driver VolumeSnapshotter.
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
    /// Hooks before the first and after the last member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<BackupHooks>,
    /// Whether members are backed up one after another, in their order. Equivalent to `executionOrder:
    /// Sequential`. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintain_order: Option<bool>,
    /// Whether members are backed up in parallel (Parallel) or in their order (Sequential). Default: Parallel,
    /// unless `maintainOrder` is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_order: Option<ExecutionOrder>,
    /// How long a backup may take, such as "2h"; after that it is stopped and Failed. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::TIME))]
    #[x_kube(validation = cel::duration())]
    pub time_out: Option<GoDuration>,
    /// Whether and when a failed backup is retried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_config: Option<RetryConfig>,
}

impl BackupBatchSpec {
    /// Whether members run one after another, from `maintainOrder` or `executionOrder`.
    pub fn is_sequential(&self) -> bool {
        invoker::is_sequential(self.maintain_order, self.execution_order.as_ref())
    }
}

/// Whether the backups of a BackupBatch run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupBatchStatus {
    /// Generation of the object that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions of the batch: RepositoryFound, BackendSecretFound, ValidationPassed and
    /// CronJobCreated (the schedule is active).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Conditions of each member.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub member_conditions: Vec<MemberConditions>,
    /// Ready, NotReady or Invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<InvokerPhase>,
    /// When the last scheduled BackupSession was due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,
}

/// Conditions of one member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberConditions {
    /// The member's target.
    pub target: TargetRef,
    /// Conditions of the member, such as BackupTargetFound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
