//! Reads a backup's archive in one pass, which refuses everything that no backup writer produces, into an unnamed
//! compressed file with an index in memory. No item is available before the end of the archive was reached. Called by
//! the restore pipeline and by deletion.

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

use crate::memory::{Memory, NoMemory, Share};
use crate::object_store::{ObjectReading, StoreError};
use blocks::BlockFile;
use index::Index;

pub use head::Uid;
pub use index::Item;

/// Limits for an archive. The defaults accept everything that our own writer produces for any cluster that Kubernetes
/// itself can run, and refuse decompression bombs; [`SpoolLimits::untrusted`] is stricter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolLimits {
    /// Number of entries in the archive; each item has two.
    pub entries: u64,
    /// Size of one entry, in bytes.
    pub entry_bytes: u64,
    /// Size of the archive before compression, in bytes.
    pub plain_bytes: u64,
    /// Plain bytes per compressed byte, once the archive is larger than `ratio_from`.
    pub ratio: u64,
    pub ratio_from: u64,
    /// Size of the index, which is kept in memory, in bytes.
    pub index_bytes: u64,
    /// Size of the spool file, in bytes.
    pub spool_bytes: u64,
    /// Bytes that must stay free on the spool's disk.
    pub reserve: u64,
}

impl Default for SpoolLimits {
    fn default() -> Self {
        const MIB: u64 = 1024 * 1024;
        Self {
            entries: 8_000_000,
            entry_bytes: 64 * MIB,
            plain_bytes: 256 * 1024 * MIB,
            // Thousands of equal objects reach a ratio of several hundred; only bombs come close to gzip's maximum of
            // 1032.
            ratio: 900,
            ratio_from: 64 * MIB,
            index_bytes: 256 * MIB,
            spool_bytes: u64::MAX,
            reserve: 16 * MIB,
        }
    }
}

impl SpoolLimits {
    /// For archives from untrusted sources: a million objects with an ordinary compression ratio.
    #[must_use]
    pub fn untrusted(self) -> Self {
        Self { entries: 2_000_000, ratio: 250, ..self }
    }
}

/// An item that needs no more memory than this, once it is parsed, is processed at any time.
const SMALL: usize = 256 * 1024;
/// How many values of an item exist at once while it is processed: that of the archive, that of each action, and that of
/// the cluster.
const COPIES: usize = 4;

/// Why an archive is refused.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    #[error("cannot read the archive")]
    Storage(#[source] StoreError),
    #[error("the archive is not gzip: it starts with {0:02x?}")]
    NotGzip(Vec<u8>),
    #[error("the archive is damaged or truncated: {0}")]
    Damaged(String),
    #[error(
        "the archive has the format {found}, this version reads up to {newest}; restore it with a newer version"
    )]
    Newer { found: String, newest: &'static str },
    #[error("the archive contains the entry '{name}', which is not part of a backup: {problem}")]
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
    #[error(transparent)]
    Memory(#[from] NoMemory),
    #[error("reading the archive was stopped")]
    Stopped,
}

/// An item whose content is not an object; it cannot be restored, the others can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    pub id: ItemId,
    pub problem: String,
}

/// An archive that was read completely and found valid.
#[derive(Debug)]
pub struct Spool {
    index: Index,
    blocks: BlockFile,
    unreadable: Vec<Unreadable>,
    format: String,
    memory: Share,
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
        // Once the pass has failed, the rest is not read.
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

    /// The number of items, without the unreadable ones.
    pub fn len(&self) -> usize {
        self.index.plain_count()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All items in the version that the cluster preferred, in the order of the archive.
    pub fn items(&self) -> impl Iterator<Item = Item<'_>> {
        self.index.items().filter(|item| item.stored_version().is_none())
    }

    /// The metadata of the item at a position in the index.
    pub fn item(&self, index: usize) -> Option<Item<'_>> {
        self.index.item(index)
    }

    /// The position of an item in the index.
    pub fn find(&self, id: &ItemId) -> Option<usize> {
        self.index.find(id, None)
    }

    /// The position of an item in another version than the preferred one; most archives have no other versions.
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

    /// The items whose content is not an object.
    pub fn unreadable(&self) -> &[Unreadable] {
        &self.unreadable
    }

    /// The format version that the archive names; empty for very old ones.
    pub fn format_version(&self) -> &str {
        &self.format
    }

    /// Size of the spool file, in bytes.
    pub fn size(&self) -> u64 {
        self.blocks.size()
    }

    /// Takes memory for what is kept as long as the spool, beside it.
    pub fn hold(&mut self, bytes: usize) -> Result<(), SpoolError> {
        Ok(Memory::of_process().held.try_extend(&mut self.memory, bytes)?)
    }

    /// Takes the memory for an item that is processed: it exists as several values at once. Small items are not counted.
    pub async fn reserve(&self, index: usize) -> Result<Share, SpoolError> {
        let weight = self.index.place(index).map_or(0, |place| place.weight as usize * 1024);
        if weight <= SMALL {
            return Ok(Share::default());
        }
        Ok(Memory::of_process().work.take(weight.saturating_mul(COPIES)).await?)
    }

    /// The JSON of the item at a position in the index.
    pub async fn get(&self, index: usize) -> Result<Bytes, SpoolError> {
        let place = self.index.place(index).ok_or(SpoolError::Stopped)?;
        self.blocks.get(place).await
    }
}
