//! The archive of a Velero backup as a source of items: the spool that it was read into.

use async_trait::async_trait;
use lifeboat_archive::{Item, Spool, SpoolError, Uid};
use lifeboat_plan::catalogue::ItemId;
use lifeboat_plugin::actions::BackupItems;
use serde_json::Value;

use lifeboat_items::source::{ItemHead, ItemSource, ReadItem, SourceError};

/// The items of an archive.
pub(crate) struct ArchiveItems(pub(crate) Spool);

fn head(item: Item<'_>) -> ItemHead<'_> {
    ItemHead {
        position: item.index(),
        resource: item.resource(),
        namespace: item.namespace(),
        name: item.name(),
        api_version: item.api_version(),
        kind: item.kind(),
        labels: item.labels(),
    }
}

#[async_trait]
impl ItemSource for ArchiveItems {
    fn heads(&self) -> Box<dyn Iterator<Item = ItemHead<'_>> + '_> {
        Box::new(self.0.items().map(head))
    }

    fn head(&self, position: usize) -> Option<ItemHead<'_>> {
        self.0.item(position).map(head)
    }

    fn find(&self, id: &ItemId) -> Option<usize> {
        self.0.find(id)
    }

    fn find_version(&self, id: &ItemId, version: &str) -> Option<usize> {
        self.0.find_version(id, version)
    }

    fn uid(&self, position: usize) -> Option<u128> {
        self.0.item(position)?.uid().map(Uid::number)
    }

    fn owners(&self, position: usize) -> Vec<u128> {
        let owners = self.0.item(position).map(|item| item.owners()).unwrap_or_default();
        owners.iter().copied().map(Uid::number).collect()
    }

    fn claims(&self, position: usize) -> Vec<&str> {
        self.0.item(position).map(|item| item.claims().collect()).unwrap_or_default()
    }

    async fn read(&self, position: usize) -> Result<ReadItem, SourceError> {
        let read = async {
            let memory = self.0.reserve(position).await?;
            Ok::<_, SpoolError>(ReadItem { json: self.0.get(position).await?, memory: Box::new(memory) })
        };
        read.await.map_err(|error| SourceError(Box::new(error)))
    }
}

#[async_trait]
impl BackupItems for ArchiveItems {
    async fn get(&self, id: &ItemId) -> Option<Value> {
        serde_json::from_slice(&self.0.get(self.0.find(id)?).await.ok()?).ok()
    }
}
