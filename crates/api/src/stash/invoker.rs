//! What the invokers of backups and restores share: driver, order, retries, phases.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::cel;
use super::limits;
use crate::common::{GoDuration, string_enum};

string_enum! {
    /// What moves the data.
    #[derive(Default)]
    pub enum Driver {
        /// Files and dumps into a restic repository.
        #[default]
        Restic = "Restic",
        /// Volume snapshots of the storage itself.
        VolumeSnapshotter = "VolumeSnapshotter",
    }
}

string_enum! {
    /// Whether the members of a batch run at once or one after another.
    pub enum ExecutionOrder {
        /// All at once.
        Parallel = "Parallel",
        /// In the order in which they stand in `members`.
        Sequential = "Sequential",
    }
}

string_enum! {
    /// Whether an invoker of backups can do its work.
    pub enum InvokerPhase {
        /// Something in its spec is wrong.
        Invalid = "Invalid",
        /// Its backups run.
        Ready = "Ready",
        /// Something it needs is missing; its conditions say what.
        NotReady = "NotReady",
    }
}

/// Whether and when a failed backup is tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetryConfig {
    /// How many times to try again.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    pub max_retry: i32,
    /// How long to wait before that, such as "5m". Default: not at all.
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

/// How many finished sessions stay by default, and how often a failed one is tried again.
pub(super) const fn one() -> i32 {
    1
}

/// `maintainOrder` and `executionOrder` of one batch, read together: true if members run one after another.
pub(super) fn is_sequential(maintain_order: Option<bool>, execution_order: Option<&ExecutionOrder>) -> bool {
    match execution_order {
        Some(order) => *order == ExecutionOrder::Sequential,
        None => maintain_order.unwrap_or(false),
    }
}

/// The rule that the two ways to ask for an order agree.
pub(super) fn orders_agree() -> kube::core::Rule {
    cel::forbidden(
        "!(has(self.maintainOrder) && has(self.executionOrder)) \
         || self.maintainOrder == (self.executionOrder == 'Sequential')",
        ".maintainOrder",
        "maintainOrder contradicts executionOrder: true means Sequential, false Parallel",
    )
}

/// The rule that no two members of a batch have the same alias.
pub(super) fn aliases_are_unique() -> kube::core::Rule {
    kube::core::Rule::new(
        "self.all(m, !has(m.target) || !has(m.target.alias) || m.target.alias == '' || \
         self.exists_one(o, has(o.target) && has(o.target.alias) && o.target.alias == m.target.alias))",
    )
    .message("members: target.alias must be unique, because it is the host name in the repository")
    .reason(kube::core::Reason::FieldValueDuplicate)
}

/// The rule that everything but volume snapshots names a repository.
pub(super) fn repository_for_restic() -> kube::core::Rule {
    cel::required(
        "has(self.repository) || self.driver == 'VolumeSnapshotter'",
        ".repository",
        "repository is required unless driver is VolumeSnapshotter",
    )
}
