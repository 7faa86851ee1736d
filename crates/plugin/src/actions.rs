//! The action traits. An item travels as JSON; identifiers of other items carry the namespaces of the backup. Every
//! action says once which items it is for; whoever calls it asks first.
//!
//! Calls may be made from many tasks at once; an implementation that cannot bear that orders them itself. A caller may
//! drop a call at any await.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use lifeboat_api::catalogue::{GroupResource, ItemId};
use lifeboat_api::velero::{Backup, Restore};
use serde_json::Value;

/// What an action could not do, in words for the backup's or restore's results.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ActionError {
    /// The item or the cluster is not as the action needs it.
    #[error("{0}")]
    Failed(String),
    /// The server may not read what the action asked for.
    #[error("{0}")]
    Forbidden(String),
    /// The action has no background operations.
    #[error("this action has no operations in the background")]
    NoOperations,
}

/// The items that an action is for. Empty lists include everything; names of types may be in any of their forms.
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

/// How far a background operation has come.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperationProgress {
    pub completed: bool,
    /// Empty where nothing is wrong.
    pub error: String,
    pub done: i64,
    pub total: i64,
    pub units: String,
    pub description: String,
    pub started: Option<Timestamp>,
    pub updated: Option<Timestamp>,
}

/// What a backup item action gives back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BackupOutcome {
    /// The item as it is to be written.
    pub item: Value,
    /// Items to back up before this one.
    pub additional_items: Vec<ItemId>,
    /// The operation that goes on in the background.
    pub operation_id: Option<String>,
    /// Items to read and write again when that operation has ended.
    pub post_operation_items: Vec<ItemId>,
    /// What the action could not do for the item, which is backed up all the same.
    pub warnings: Vec<String>,
    /// The same for what the backup cannot be called complete without.
    pub errors: Vec<String>,
}

/// Runs for each matching item before it is written.
#[async_trait]
pub trait BackupItemAction: Send + Sync {
    /// `velero.io/pod`: unique among the actions of its kind.
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

/// Tells which items belong into one block with an item: they are processed together, hooks around all of them.
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

/// What a restore item action gets.
pub struct RestoreInput<'a> {
    /// The item as earlier actions left it.
    pub item: Value,
    /// The item as it is in the backup.
    pub from_backup: &'a Value,
    pub restore: &'a Restore,
}

/// What a restore item action gives back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RestoreOutcome {
    pub item: Value,
    /// Items to restore before this one.
    pub additional_items: Vec<ItemId>,
    /// Leave this item out; its additional items are ignored.
    pub skip: bool,
    pub operation_id: Option<String>,
    /// Ask `are_ready` for the additional items before this item goes on.
    pub wait_for_additional_items: bool,
    /// How long to ask; None or zero for the server's setting.
    pub ready_timeout: Option<Duration>,
}

impl RestoreOutcome {
    /// The item, and nothing else.
    pub fn item(item: Value) -> Self {
        Self { item, ..Self::default() }
    }

    /// The item is not to be restored.
    pub fn skipped(item: Value) -> Self {
        Self { item, skip: true, ..Self::default() }
    }
}

/// Runs for each matching item before it is created.
#[async_trait]
pub trait RestoreItemAction: Send + Sync {
    fn name(&self) -> &str;
    async fn applies_to(&self) -> Result<AppliesTo, ActionError>;
    async fn execute(
        &self,
        input: RestoreInput<'_>,
        cluster: &dyn Lookup,
    ) -> Result<RestoreOutcome, ActionError>;
    /// Whether the additional items can be used. Namespaces are those of the backup, as upstream hands them over.
    async fn are_ready(
        &self,
        _items: &[ItemId],
        _restore: &Restore,
        _cluster: &dyn Lookup,
    ) -> Result<bool, ActionError> {
        Ok(true)
    }
    /// Whether calls may begin operations: then they are noted, so that a restart does not begin them twice.
    fn may_operate(&self) -> bool {
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

/// What actions may ask of the cluster. The server's own client answers; plugin processes have clients of their own.
#[async_trait]
pub trait Lookup: Send + Sync {
    /// One object; None where there is none, or where its type is not served.
    async fn get(&self, id: &ItemId) -> Result<Option<Value>, ActionError>;
    /// All objects of a type; in one namespace, or everywhere.
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
