//! Reads a backup's archive: one pass that refuses what no backup writer writes, into a compressed file without a name,
//! with an index in memory. Nothing of an archive is handed out before its end was seen. Called by the restore pipeline
//! and by deletion.

mod blocks;
mod head;
mod index;
mod names;
mod pass;
pub(crate) mod source;
pub(crate) mod tar;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::TryStreamExt;
use lifeboat_api::catalogue::{GroupResource, ItemId};
use tokio::sync::mpsc;

use crate::object_store::{ObjectReading, StoreError};
use blocks::BlockFile;
use index::Index;

pub use head::Uid;
pub use index::Item;

/// What is believed of an archive. The defaults take whatever our own writer makes of any cluster that Kubernetes itself can
/// bear, and refuse bombs; [`SpoolLimits::of_strangers`] believes less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolLimits {
    /// Entries of the archive; an item has two.
    pub entries: u64,
    /// Bytes of one entry.
    pub entry_bytes: u64,
    /// Bytes of the archive before compression.
    pub plain_bytes: u64,
    /// Plain bytes for each compressed byte, once the archive is larger than `ratio_from`.
    pub ratio: u64,
    pub ratio_from: u64,
    /// Bytes of the index, which stays in memory.
    pub index_bytes: u64,
    /// Bytes of the spool file.
    pub spool_bytes: u64,
    /// Bytes that stay free on the spool's disk.
    pub reserve: u64,
}

impl Default for SpoolLimits {
    fn default() -> Self {
        const MIB: u64 = 1024 * 1024;
        Self {
            entries: 8_000_000,
            entry_bytes: 64 * MIB,
            plain_bytes: 256 * 1024 * MIB,
            // Thousands of equal objects come to several hundred; only bombs come near what gzip can do at most, 1032.
            ratio: 900,
            ratio_from: 64 * MIB,
            index_bytes: 2048 * MIB,
            spool_bytes: u64::MAX,
            reserve: 16 * MIB,
        }
    }
}

impl SpoolLimits {
    /// For archives from places that nobody vouches for: a million objects, of ordinary likeness.
    #[must_use]
    pub fn of_strangers(self) -> Self {
        Self { entries: 2_000_000, ratio: 250, index_bytes: 256 * 1024 * 1024, ..self }
    }
}

/// Why an archive is not restored from.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    #[error("cannot read the archive")]
    Storage(#[source] StoreError),
    #[error("the archive is not gzip: it begins with {0:02x?}")]
    NotGzip(Vec<u8>),
    #[error("the archive is damaged or cut: {0}")]
    Damaged(String),
    #[error(
        "the archive has the format {found}, this version reads up to {newest}; restore it with a newer version"
    )]
    Newer { found: String, newest: &'static str },
    #[error("the archive has the entry '{name}', which no backup holds: {problem}")]
    Entry { name: String, problem: &'static str },
    #[error("the archive is larger than a backup can be: {problem}")]
    TooLarge { problem: String },
    #[error(
        "too little space for the spool in '{}': {needed} bytes are needed, {free} are free; \
         give it more (--spool-size, or a larger volume)", directory.display()
    )]
    Space { directory: PathBuf, needed: u64, free: u64 },
    #[error("cannot {action} the spool in '{}'", directory.display())]
    Disk {
        action: &'static str,
        directory: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("reading the archive was stopped")]
    Stopped,
}

/// An item whose content is no object; it cannot be restored, others can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    pub id: ItemId,
    pub problem: String,
}

/// An archive that was read to its end and found in order.
#[derive(Debug)]
pub struct Spool {
    index: Index,
    blocks: BlockFile,
    unreadable: Vec<Unreadable>,
    format: String,
}

impl Spool {
    /// Reads an archive into a file below `directory`.
    pub async fn read(
        archive: ObjectReading,
        directory: &Path,
        limits: SpoolLimits,
    ) -> Result<Self, SpoolError> {
        let ObjectReading { size, mut body } = archive;
        let (chunks, receiver) = mpsc::channel(4);
        let directory = directory.to_owned();
        let pass = tokio::task::spawn_blocking(move || pass::run(receiver, size, &directory, &limits));
        // Whatever the pass does not take any more needs no reading either.
        loop {
            let chunk = body.try_next().await;
            let Some(chunk) = chunk.transpose() else { break };
            let failed = chunk.is_err();
            if chunks.send(chunk).await.is_err() || failed {
                break;
            }
        }
        drop(chunks);
        pass.await.map_err(|_| SpoolError::Stopped)?
    }

    /// Number of items; those that are unreadable are not among them.
    pub fn len(&self) -> usize {
        self.index.plain_count()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every item in the version that the cluster preferred, in the order of the archive.
    pub fn items(&self) -> impl Iterator<Item = Item<'_>> {
        self.index.items().filter(|item| item.stored_version().is_none())
    }

    /// What is known of the item at a place in the index.
    pub fn item(&self, index: usize) -> Option<Item<'_>> {
        self.index.item(index)
    }

    /// Where an item is.
    pub fn find(&self, id: &ItemId) -> Option<usize> {
        self.index.find(id, None)
    }

    /// Where an item is in another version than the preferred one; most archives have none.
    pub fn find_version(&self, id: &ItemId, version: &str) -> Option<usize> {
        self.index.find(id, Some(version))
    }

    /// The other versions in which an item is stored.
    pub fn versions(&self, id: &ItemId) -> Vec<&str> {
        self.index.versions(id)
    }

    /// The types that are stored in further versions, and those versions; most archives have none.
    pub fn other_versions(&self) -> BTreeMap<&GroupResource, BTreeSet<&str>> {
        let mut found: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for item in self.index.items() {
            if let Some(version) = item.stored_version() {
                found.entry(item.resource()).or_default().insert(version);
            }
        }
        found
    }

    /// Items whose content is no object.
    pub fn unreadable(&self) -> &[Unreadable] {
        &self.unreadable
    }

    /// The format that the archive says it has; empty for very old ones.
    pub fn format_version(&self) -> &str {
        &self.format
    }

    /// Bytes of the spool file.
    pub fn size(&self) -> u64 {
        self.blocks.size()
    }

    /// The JSON of the item at a place in the index.
    pub async fn get(&self, index: usize) -> Result<Bytes, SpoolError> {
        let place = self.index.place(index).ok_or(SpoolError::Stopped)?;
        self.blocks.get(place).await
    }
}
