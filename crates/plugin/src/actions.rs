//! The action traits. Items are JSON; identifiers of other items contain the namespaces of the backup. An action
//! declares which items it is for, and callers check that first.
//!
//! Calls may be made from several tasks at the same time; an implementation that does not support this serializes them
//! itself. A caller may drop a call at any await.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use lifeboat_api::catalogue::{GroupResource, ItemId};
use lifeboat_api::velero::{Backup, Restore};
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;

/// Why an action failed, as a message for the results of the backup or restore.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ActionError {
    /// The item or the cluster does not meet the action's requirements.
    #[error("{0}")]
    Failed(String),
    /// The server lacks the right to read what the action requested.
    #[error("{0}")]
    Forbidden(String),
    /// The action has no operations.
    #[error("this action has no operations")]
    NoOperations,
}

/// The items that an action is for. Empty lists include everything; types may be given by any of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppliesTo {
    pub included_namespaces: Vec<String>,
    pub excluded_namespaces: Vec<String>,
    pub included_resources: Vec<String>,
    pub excluded_resources: Vec<String>,
    /// A label selector as text; empty for all labels.
    pub selector: String,
}

impl AppliesTo {
    /// All items of the given types.
    pub fn resources(names: &[&str]) -> Self {
        Self { included_resources: names.iter().map(|&name| name.to_owned()).collect(), ..Self::default() }
    }
}

/// The progress of an operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperationProgress {
    pub completed: bool,
    /// Empty if there is no error.
    pub error: String,
    pub done: i64,
    pub total: i64,
    pub units: String,
    pub description: String,
    pub started: Option<Timestamp>,
    pub updated: Option<Timestamp>,
}

/// The result of a backup item action.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BackupOutcome {
    /// The item to write into the backup.
    pub item: Value,
    /// Items to back up before this one.
    pub additional_items: Vec<ItemId>,
    /// The operation that the action started.
    pub operation_id: Option<String>,
    /// Items to read and write again when that operation has ended.
    pub post_operation_items: Vec<ItemId>,
    /// What the action could not do; the item is backed up nevertheless.
    pub warnings: Vec<String>,
    /// What the action could not do and what makes the backup incomplete.
    pub errors: Vec<String>,
}

/// Runs for each matching item before it is written into the backup.
#[async_trait]
pub trait BackupItemAction: Send + Sync {
    /// The action's name, such as `velero.io/pod`; unique among the actions of its kind.
    fn name(&self) -> &str;
    async fn applies_to(&self) -> Result<AppliesTo, ActionError>;
    async fn execute(
        &self,
        item: Value,
        backup: &Backup,
        cluster: &dyn Lookup,
    ) -> Result<BackupOutcome, ActionError>;
    async fn progress(&self, _operation: &str, _backup: &Backup) -> Result<OperationProgress, ActionError> {
        Err(ActionError::NoOperations)
    }
    async fn cancel(&self, _operation: &str, _backup: &Backup) -> Result<(), ActionError> {
        Ok(())
    }
}

/// Returns the items that are in one block with an item: they are processed together, and hooks run before and after
/// the whole block.
#[async_trait]
pub trait ItemBlockAction: Send + Sync {
    fn name(&self) -> &str;
    async fn applies_to(&self) -> Result<AppliesTo, ActionError>;
    async fn related_items(
        &self,
        item: &Value,
        backup: &Backup,
        cluster: &dyn Lookup,
    ) -> Result<Vec<ItemId>, ActionError>;
}

/// What the caller does with the action's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// The item is restored.
    Restore,
    /// A dry run reports what a restore would do: the action returns the same result as for a restore and changes
    /// nothing.
    Preview,
}

/// The other items of the backup that is being restored.
#[async_trait]
pub trait BackupItems: Send + Sync {
    /// An item as the backup contains it; None if the backup does not contain it.
    async fn get(&self, id: &ItemId) -> Option<Value>;
}

/// The input of a restore item action.
pub struct RestoreInput<'a> {
    /// The item as the previous actions changed it.
    pub item: Value,
    /// The item as the backup contains it.
    pub from_backup: &'a Value,
    pub restore: &'a Restore,
    pub backup: &'a dyn BackupItems,
    /// Plugins are called with [`Intent::Restore`] only, because their protocol has no dry run.
    pub intent: Intent,
}

/// The result of a restore item action.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RestoreOutcome {
    pub item: Value,
    /// Items to restore before this one.
    pub additional_items: Vec<ItemId>,
    /// Do not restore this item; its additional items are ignored.
    pub skip: bool,
    pub operation_id: Option<String>,
    /// Call `are_ready` for the additional items before this item is restored.
    pub wait_for_additional_items: bool,
    /// How long to wait for them; None or zero for the server's setting.
    pub ready_timeout: Option<Duration>,
    /// The item is a claim whose volume is being filled with data of the backup.
    pub fills_claim: bool,
}

impl RestoreOutcome {
    /// A result with the item only.
    pub fn item(item: Value) -> Self {
        Self { item, ..Self::default() }
    }

    /// A result that skips the item.
    pub fn skipped(item: Value) -> Self {
        Self { item, skip: true, ..Self::default() }
    }
}

/// The right to ask an action whether items are ready, until it is dropped.
#[derive(Debug, Default)]
pub struct Turn {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Turn {
    /// A turn that takes one of a limited number. None: there is no limit.
    pub fn new(permit: Option<OwnedSemaphorePermit>) -> Self {
        Self { _permit: permit }
    }
}

/// Runs for each matching item before it is restored.
#[async_trait]
pub trait RestoreItemAction: Send + Sync {
    fn name(&self) -> &str;
    async fn applies_to(&self) -> Result<AppliesTo, ActionError>;
    async fn execute(
        &self,
        input: RestoreInput<'_>,
        cluster: &dyn Lookup,
    ) -> Result<RestoreOutcome, ActionError>;
    /// Waits until the action may be asked [`Self::are_ready`] once more: of questions that take minutes it answers only
    /// some at a time.
    async fn turn(&self) -> Turn {
        Turn::default()
    }
    /// Whether the additional items are ready. Their namespaces are those of the backup, as in stock Velero. `limit`: how
    /// long the answer may take; a program that has not answered by then is ended.
    async fn are_ready(
        &self,
        _items: &[ItemId],
        _restore: &Restore,
        _cluster: &dyn Lookup,
        _limit: Duration,
    ) -> Result<bool, ActionError> {
        Ok(true)
    }
    /// Whether calls may start operations. If so, calls are recorded in a journal, so that a restart does not start an
    /// operation twice.
    fn may_operate(&self) -> bool {
        false
    }
    /// Whether the action restores the data of a claim's volume. It is not called for a claim whose data could not be
    /// backed up, and a claim that it has started to fill is waited for.
    fn restores_volume_data(&self) -> bool {
        false
    }
    async fn progress(&self, _operation: &str, _restore: &Restore) -> Result<OperationProgress, ActionError> {
        Err(ActionError::NoOperations)
    }
    async fn cancel(&self, _operation: &str, _restore: &Restore) -> Result<(), ActionError> {
        Ok(())
    }
}

/// Runs for each matching item of a backup that is being deleted.
#[async_trait]
pub trait DeleteItemAction: Send + Sync {
    fn name(&self) -> &str;
    async fn applies_to(&self) -> Result<AppliesTo, ActionError>;
    async fn execute(&self, item: &Value, backup: &Backup) -> Result<(), ActionError>;
}

/// Read access of actions to the cluster. The server's own client implements it; plugin processes have their own
/// clients.
#[async_trait]
pub trait Lookup: Send + Sync {
    /// Reads an object; None if it does not exist or its type is not served.
    async fn get(&self, id: &ItemId) -> Result<Option<Value>, ActionError>;
    /// Lists all objects of a type, in one namespace or in all of them.
    async fn list(
        &self,
        resource: &GroupResource,
        namespace: Option<&str>,
        label_selector: &str,
    ) -> Result<Vec<Value>, ActionError>;
}

/// All actions of a server, in the order in which they run.
#[derive(Clone, Default)]
pub struct Registry {
    pub backup: Vec<Arc<dyn BackupItemAction>>,
    pub blocks: Vec<Arc<dyn ItemBlockAction>>,
    pub restore: Vec<Arc<dyn RestoreItemAction>>,
    pub delete: Vec<Arc<dyn DeleteItemAction>>,
}
