//! Types shared by the invokers of backups and restores: driver, order, retries, phases.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::cel;
use super::limits;
use crate::common::{GoDuration, string_enum};

string_enum! {
    /// How data is stored.
    #[derive(Default)]
    pub enum Driver {
        /// Files and dumps into a restic repository.
        #[default]
        Restic = "Restic",
        /// Volume snapshots in the storage system.
        VolumeSnapshotter = "VolumeSnapshotter",
    }
}

string_enum! {
    /// Whether the members of a batch run in parallel or one after another.
    pub enum ExecutionOrder {
        /// In parallel.
        Parallel = "Parallel",
        /// One after another, in the order of `members`.
        Sequential = "Sequential",
    }
}

string_enum! {
    /// Whether the backups of an invoker can run.
    pub enum InvokerPhase {
        /// The spec is invalid.
        Invalid = "Invalid",
        /// Backups run on schedule.
        Ready = "Ready",
        /// Something it needs is missing; see its conditions.
        NotReady = "NotReady",
    }
}

/// Whether and when a failed backup is retried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetryConfig {
    /// Number of retries.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    pub max_retry: i32,
    /// How long to wait before a retry, such as "5m". Default: no delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::TIME))]
    #[x_kube(validation = cel::duration())]
    pub delay: Option<GoDuration>,
}

impl Default for RetryConfig {
    fn default() -> Self {
        Self { max_retry: 1, delay: None }
    }
}

/// Defaults for the number of finished sessions to keep and for the number of retries.
pub(super) const fn one() -> i32 {
    1
}

/// Whether members of a batch run one after another, from `maintainOrder` and `executionOrder`.
pub(super) fn is_sequential(maintain_order: Option<bool>, execution_order: Option<&ExecutionOrder>) -> bool {
    match execution_order {
        Some(order) => *order == ExecutionOrder::Sequential,
        None => maintain_order.unwrap_or(false),
    }
}

/// Rule: `maintainOrder` and `executionOrder` do not contradict each other.
pub(super) fn orders_agree() -> kube::core::Rule {
    cel::forbidden(
        "!(has(self.maintainOrder) && has(self.executionOrder)) \
         || self.maintainOrder == (self.executionOrder == 'Sequential')",
        ".maintainOrder",
        "maintainOrder contradicts executionOrder: true means Sequential, false Parallel",
    )
}

/// Rule: no two members of a batch have the same alias.
pub(super) fn aliases_are_unique() -> kube::core::Rule {
    kube::core::Rule::new(
        "self.all(m, !has(m.target) || !has(m.target.alias) || m.target.alias == '' || \
         self.exists_one(o, has(o.target) && has(o.target.alias) && o.target.alias == m.target.alias))",
    )
    .message("members: target.alias must be unique, because it is the host name in the repository")
    .reason(kube::core::Reason::FieldValueDuplicate)
}

/// Rule: every driver except VolumeSnapshotter needs a repository.
pub(super) fn repository_for_restic() -> kube::core::Rule {
    cel::required(
        "has(self.repository) || self.driver == 'VolumeSnapshotter'",
        ".repository",
        "repository is required unless driver is VolumeSnapshotter",
    )
}
