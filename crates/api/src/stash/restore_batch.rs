//! Kind RestoreBatch: one restore into several targets, as a BackupBatch backed them up.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cel;
use super::hooks::RestoreHooks;
use super::invoker::{self, Driver, ExecutionOrder};
use super::limits;
use super::member::RestoreMember;
use super::reference::{ObjectRef, TargetRef};
use super::restore_session::{HostRestoreStats, RestorePhase};
use super::rule;
use super::standstill::StoppedWorkload;
use crate::common::{Condition, GoDuration, Time, string_enum};

/// Targets to restore together, and the repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "stash.appscode.com",
    version = "v1beta1",
    kind = "RestoreBatch",
    plural = "restorebatches",
    namespaced,
    status = "RestoreBatchStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "One restore into several targets.",
    category = "lifeboat",
    category = "stash",
    printcolumn(name = "Repository", type_ = "string", json_path = ".spec.repository.name"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Duration", type_ = "string", json_path = ".status.sessionDuration"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message")
)]
#[x_kube(validation = invoker::repository_for_restic())]
#[x_kube(validation = invoker::orders_agree())]
#[x_kube(validation = cel::immutable())]
#[serde(rename_all = "camelCase")]
pub struct RestoreBatchSpec {
    /// How data is stored: Restic or VolumeSnapshotter.
    #[serde(default)]
    pub driver: Driver,
    /// Repository that holds the data of all members. Not needed by driver VolumeSnapshotter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<ObjectRef>,
    /// The targets and how each is restored.
    #[schemars(length(min = 1, max = limits::MEMBERS), transform = rule::bounds_for_members)]
    #[x_kube(validation = invoker::aliases_are_unique())]
    pub members: Vec<RestoreMember>,
    /// Whether members are restored one after another, in their order. Equivalent to `executionOrder:
    /// Sequential`. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintain_order: Option<bool>,
    /// Whether members are restored in parallel (Parallel) or in their order (Sequential). Default: Parallel,
    /// unless `maintainOrder` is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_order: Option<ExecutionOrder>,
    /// Hooks before the first and after the last member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<RestoreHooks>,
    /// How long the restore may take, such as "2h"; after that it is stopped and Failed. Default: no
    /// limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::TIME))]
    #[x_kube(validation = cel::duration())]
    pub time_out: Option<GoDuration>,
}

impl RestoreBatchSpec {
    /// Whether members run one after another, from `maintainOrder` or `executionOrder`.
    pub fn is_sequential(&self) -> bool {
        invoker::is_sequential(self.maintain_order, self.execution_order.as_ref())
    }
}

string_enum! {
    /// Phases of the restore of one member.
    pub enum RestoreTargetPhase {
        /// Not started.
        Pending = "Pending",
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

/// Progress and result of the restore of a batch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreBatchStatus {
    /// Phase of the restore: Pending, Running, Succeeded, Failed, Unknown or Invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<RestorePhase>,
    /// What the restore waits for, or why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Time from the object's creation to the end of the restore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_duration: Option<GoDuration>,
    /// When the restore times out, if it has a `timeOut`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_deadline: Option<Time>,
    /// Steps of the batch as a whole: RepositoryFound, BackendSecretFound, GlobalPreRestoreHookSucceeded and
    /// others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Progress of each member.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<RestoreMemberStatus>,
}

/// Progress of the restore of one member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreMemberStatus {
    /// The member's target.
    #[serde(rename = "ref")]
    pub reference: TargetRef,
    /// Steps of this member: RestoreTargetFound, RestoreJobCreated, RestoreCompleted and others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// How many hosts of the member are restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_hosts: Option<i32>,
    /// The PersistentVolumeClaims of the target. Sessions whose targets share a claim run one after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<String>,
    /// Pending, Running, Succeeded, Failed or Unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<RestoreTargetPhase>,
    /// Result of each host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stats: Vec<HostRestoreStats>,
    /// The workload that the restore stops, and how far that has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standstill: Option<StoppedWorkload>,
}
