//! Actions on items of backups and restores: implement one of these traits and pass it to [`Plugin`](crate::Plugin).
//!
//! Several calls may run at the same time (see [`Plugin::concurrent_calls`](crate::Plugin::concurrent_calls)), and a
//! call that the host has cancelled is dropped at its next await.

use std::time::Duration;

use async_trait::async_trait;

use crate::{Error, Object, OperationProgress, ResourceId, Result};

/// The items that an action is for. Empty fields select everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    pub included_namespaces: Vec<String>,
    pub excluded_namespaces: Vec<String>,
    /// `pods`, `deployments.apps`.
    pub included_resources: Vec<String>,
    pub excluded_resources: Vec<String>,
    /// A label selector in kubectl's syntax.
    pub labels: String,
}

impl Selector {
    /// All items.
    pub fn everything() -> Self {
        Self::default()
    }

    /// All items of some types.
    pub fn resources<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self { included_resources: names.into_iter().map(str::to_owned).collect(), ..Self::default() }
    }

    #[must_use]
    pub fn with_labels(mut self, selector: &str) -> Self {
        selector.clone_into(&mut self.labels);
        self
    }
}

fn no_operations<T>() -> Result<T> {
    Err(Error::new("this plugin has no operations"))
}

/// The result of a backup item action.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BackupOutput {
    pub item: Object,
    /// Items to back up before this one.
    pub additional_items: Vec<ResourceId>,
    pub operation: Option<String>,
    /// Items to read and write again when the operation has ended.
    pub items_after_operation: Vec<ResourceId>,
}

impl BackupOutput {
    pub fn new(item: Object) -> Self {
        Self { item, ..Self::default() }
    }

    #[must_use]
    pub fn with_additional_items(mut self, items: Vec<ResourceId>) -> Self {
        self.additional_items = items;
        self
    }

    /// The action started an operation; its state is requested with `progress`.
    #[must_use]
    pub fn with_operation(mut self, id: impl Into<String>) -> Self {
        self.operation = Some(id.into());
        self
    }
}

/// Runs for each matching item before it is written into the backup.
#[async_trait]
pub trait BackupItemAction: Send + Sync + 'static {
    fn applies_to(&self) -> Selector;
    async fn execute(&self, item: Object, backup: &Object) -> Result<BackupOutput>;
    /// The progress of an operation that `execute` returned.
    async fn progress(&self, _operation: &str, _backup: &Object) -> Result<OperationProgress> {
        no_operations()
    }
    /// Ends an operation early; `progress` then reports how it ended.
    async fn cancel(&self, _operation: &str, _backup: &Object) -> Result<()> {
        Ok(())
    }
}

/// The input of a restore item action.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RestoreInput {
    /// The item as the previous actions changed it.
    pub item: Object,
    /// The item as the backup contains it.
    pub item_from_backup: Object,
    pub restore: Object,
}

/// The result of a restore item action.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RestoreOutput {
    pub item: Object,
    /// Items to restore before this one. Names and namespaces are those of the backup.
    pub additional_items: Vec<ResourceId>,
    pub skip: bool,
    pub operation: Option<String>,
    pub wait: bool,
    pub wait_at_most: Option<Duration>,
}

impl RestoreOutput {
    pub fn new(item: Object) -> Self {
        Self { item, ..Self::default() }
    }

    #[must_use]
    pub fn with_additional_items(mut self, items: Vec<ResourceId>) -> Self {
        self.additional_items = items;
        self
    }

    /// Skips the item and its additional items.
    #[must_use]
    pub fn without_restore(mut self) -> Self {
        self.skip = true;
        self
    }

    /// The item is created only when `are_additional_items_ready` returns true.
    #[must_use]
    pub fn with_items_wait(mut self) -> Self {
        self.wait = true;
        self
    }

    /// Like [`Self::with_items_wait`], with a timeout instead of the server's setting.
    #[must_use]
    pub fn with_items_wait_for(mut self, at_most: Duration) -> Self {
        self.wait_at_most = Some(at_most);
        self.with_items_wait()
    }

    /// The action started an operation; its state is requested with `progress`.
    #[must_use]
    pub fn with_operation(mut self, id: impl Into<String>) -> Self {
        self.operation = Some(id.into());
        self
    }
}

/// Runs for each matching item before it is created in the cluster.
#[async_trait]
pub trait RestoreItemAction: Send + Sync + 'static {
    fn applies_to(&self) -> Selector;
    async fn execute(&self, input: RestoreInput) -> Result<RestoreOutput>;
    /// Whether the additional items are ready. Called repeatedly (soon, then every second) if `execute` requested it
    /// with `with_items_wait`. Items that could not be restored are left out. The default is true.
    async fn are_additional_items_ready(&self, _items: &[ResourceId], _restore: &Object) -> Result<bool> {
        Ok(true)
    }
    /// The progress of an operation that `execute` returned.
    async fn progress(&self, _operation: &str, _restore: &Object) -> Result<OperationProgress> {
        no_operations()
    }
    /// Ends an operation early; `progress` then reports how it ended.
    async fn cancel(&self, _operation: &str, _restore: &Object) -> Result<()> {
        Ok(())
    }
}

/// Runs for each matching item of a backup that is being deleted.
#[async_trait]
pub trait DeleteItemAction: Send + Sync + 'static {
    fn applies_to(&self) -> Selector;
    async fn execute(&self, item: Object, backup: &Object) -> Result<()>;
}

/// Returns the items of a backup that belong together: they are processed as one block, with hooks before and after the
/// whole block.
#[async_trait]
pub trait ItemBlockAction: Send + Sync + 'static {
    fn applies_to(&self) -> Selector;
    async fn related_items(&self, item: &Object, backup: &Object) -> Result<Vec<ResourceId>>;
}
