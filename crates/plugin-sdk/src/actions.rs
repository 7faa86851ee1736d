//! Actions on items of backups and restores: implement one of these traits and give it to
//! [`Plugin`](crate::Plugin).
//!
//! Many calls may run at once (see [`Plugin::concurrent_calls`](crate::Plugin::concurrent_calls)), and a call that
//! nobody waits for any more is dropped at its next await.

use std::time::Duration;

use async_trait::async_trait;

use crate::{Error, Object, OperationProgress, ResourceId, Result};

/// The items that an action is for. Empty means everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    pub included_namespaces: Vec<String>,
    pub excluded_namespaces: Vec<String>,
    /// `pods`, `deployments.apps`.
    pub included_resources: Vec<String>,
    pub excluded_resources: Vec<String>,
    /// A label selector as kubectl takes it.
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
    Err(Error::new("this plugin has no operations in the background"))
}

/// What a backup item action made of an item.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BackupOutput {
    pub item: Object,
    /// To back up before this item.
    pub additional_items: Vec<ResourceId>,
    pub operation: Option<String>,
    /// To read and write again when the operation has ended.
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

    /// Something goes on in the background; `progress` will be asked for it.
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
    /// How far an operation is that `execute` named.
    async fn progress(&self, _operation: &str, _backup: &Object) -> Result<OperationProgress> {
        no_operations()
    }
    /// End an operation early; `progress` then says how it ended.
    async fn cancel(&self, _operation: &str, _backup: &Object) -> Result<()> {
        Ok(())
    }
}

/// What a restore item action gets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RestoreInput {
    /// The item as earlier actions left it.
    pub item: Object,
    /// The item as it is in the backup.
    pub item_from_backup: Object,
    pub restore: Object,
}

/// What a restore item action made of an item.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RestoreOutput {
    pub item: Object,
    /// To restore before this item. Names and namespaces are those of the backup.
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

    /// Leave the item out of the restore, and its additional items too.
    #[must_use]
    pub fn without_restore(mut self) -> Self {
        self.skip = true;
        self
    }

    /// Create the item only when `are_additional_items_ready` says so.
    #[must_use]
    pub fn with_items_wait(mut self) -> Self {
        self.wait = true;
        self
    }

    /// As [`Self::with_items_wait`], with a time of its own instead of the server's.
    #[must_use]
    pub fn with_items_wait_for(mut self, at_most: Duration) -> Self {
        self.wait_at_most = Some(at_most);
        self.with_items_wait()
    }

    /// Something goes on in the background; `progress` will be asked for it.
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
    /// Whether the additional items can be used. Asked again and again, soon and then every second, if `execute` asked
    /// for it with `with_items_wait`. Items that could not be restored are left out. Ready by default.
    async fn are_additional_items_ready(&self, _items: &[ResourceId], _restore: &Object) -> Result<bool> {
        Ok(true)
    }
    /// How far an operation is that `execute` named.
    async fn progress(&self, _operation: &str, _restore: &Object) -> Result<OperationProgress> {
        no_operations()
    }
    /// End an operation early; `progress` then says how it ended.
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

/// Says which items of a backup belong together: they are processed as one block, with the hooks around all of it.
#[async_trait]
pub trait ItemBlockAction: Send + Sync + 'static {
    fn applies_to(&self) -> Selector;
    async fn related_items(&self, item: &Object, backup: &Object) -> Result<Vec<ResourceId>>;
}
