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
use crate::common::{Condition, GoDuration, Time, string_enum};

/// What to restore together, and wherefrom.
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
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(validation = invoker::repository_for_restic())]
#[x_kube(validation = invoker::orders_agree())]
#[x_kube(validation = cel::immutable())]
#[serde(rename_all = "camelCase")]
pub struct RestoreBatchSpec {
    /// What moves the data: Restic or VolumeSnapshotter.
    #[serde(default)]
    pub driver: Driver,
    /// Repository that has the data of all members. Not needed by driver VolumeSnapshotter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<ObjectRef>,
    /// The targets and how each is restored.
    #[schemars(length(min = 1, max = limits::MEMBERS), transform = rule::bounds_for_members)]
    #[x_kube(validation = invoker::aliases_are_unique())]
    pub members: Vec<RestoreMember>,
    /// Whether members are restored one after another, in their order. The same as `executionOrder:
    /// Sequential`. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintain_order: Option<bool>,
    /// Whether members are restored all at once (Parallel) or in their order (Sequential). Default: Parallel,
    /// unless `maintainOrder` is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_order: Option<ExecutionOrder>,
    /// What runs before the first and after the last member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<RestoreHooks>,
    /// How long the restore may take, such as "2h"; one that takes longer is stopped and Failed. Default: no
    /// limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::TIME))]
    #[x_kube(validation = cel::duration())]
    pub time_out: Option<GoDuration>,
}

impl RestoreBatchSpec {
    /// Whether members run one after another, whichever field asks for it.
    pub fn is_sequential(&self) -> bool {
        invoker::is_sequential(self.maintain_order, self.execution_order.as_ref())
    }
}

string_enum! {
    /// How far the restore of one member has come.
    pub enum RestoreTargetPhase {
        /// Not begun.
        Pending = "Pending",
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

/// What has come of a batch's restore so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreBatchStatus {
    /// How far the restore has come: Pending, Running, Succeeded, Failed, Unknown or Invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<RestorePhase>,
    /// Time from the object's creation to the end of the restore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_duration: Option<GoDuration>,
    /// When the restore fails for taking too long, if it has a `timeOut`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_deadline: Option<Time>,
    /// Steps of the batch as a whole: RepositoryFound, BackendSecretFound, GlobalPreRestoreHookSucceeded and
    /// others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// How far each member has come.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<RestoreMemberStatus>,
}

/// How far the restore of one member has come.
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
    /// Pending, Running, Succeeded, Failed or Unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<RestoreTargetPhase>,
    /// What came of each host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stats: Vec<HostRestoreStats>,
}
