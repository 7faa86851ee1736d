//! Where the items of a restore come from. The pipeline asks for the heads of all items before it starts, and reads
//! each item once, when it is restored. Implemented for the archive of a Velero backup (`ArchiveItems` in crate
//! `velero`).

use std::any::Any;

use async_trait::async_trait;
use bytes::Bytes;
use lifeboat_plan::catalogue::{GroupResource, ItemId};

/// What is known about an item without reading it.
#[derive(Clone, Copy, Debug)]
pub struct ItemHead<'a> {
    /// The argument of [`ItemSource::read`].
    pub position: usize,
    pub resource: &'a GroupResource,
    /// None for cluster-scoped objects.
    pub namespace: Option<&'a str>,
    pub name: &'a str,
    /// `v1`, `apps/v1`.
    pub api_version: &'a str,
    pub kind: &'a str,
    pub labels: &'a [(String, String)],
}

impl ItemHead<'_> {
    pub fn id(&self) -> ItemId {
        ItemId {
            resource: self.resource.clone(),
            namespace: self.namespace.map(str::to_owned),
            name: self.name.to_owned(),
        }
    }

    /// Whether the item is a namespace.
    pub fn is_namespace(&self) -> bool {
        self.resource.group.is_empty() && self.resource.resource == "namespaces"
    }
}

/// An item as JSON.
pub struct ReadItem {
    pub json: Bytes,
    /// The memory that the source counts for the item: kept while the item is processed.
    pub memory: Box<dyn Any + Send + Sync>,
}

/// Why an item cannot be read from its source.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct SourceError(pub Box<dyn std::error::Error + Send + Sync>);

/// Items that can be restored.
#[async_trait]
pub trait ItemSource: Send + Sync {
    /// Every item once, in the order of the source, in the version that the old cluster preferred.
    fn heads(&self) -> Box<dyn Iterator<Item = ItemHead<'_>> + '_>;
    fn head(&self, position: usize) -> Option<ItemHead<'_>>;
    /// The position of an item.
    fn find(&self, id: &ItemId) -> Option<usize>;
    /// The position of an item in another version than the preferred one.
    fn find_version(&self, id: &ItemId, version: &str) -> Option<usize>;
    /// The UID of an item, as a number; None if it has none.
    fn uid(&self, position: usize) -> Option<u128>;
    /// The UIDs of an item's owners.
    fn owners(&self, position: usize) -> Vec<u128>;
    /// The names of the claims that a pod mounts.
    fn claims(&self, position: usize) -> Vec<&str>;
    /// The item as JSON. The source may wait until there is memory for it.
    async fn read(&self, position: usize) -> Result<ReadItem, SourceError>;
}
