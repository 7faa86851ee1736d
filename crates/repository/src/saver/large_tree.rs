//! The tree of a very large directory: compressed and hashed while it grows, so that its JSON is never in memory. It
//! becomes a pack of its own.

use std::io::Write;
use std::sync::atomic::Ordering;

use super::packer::Filling;
use super::{Saved, Saver, upload};
use crate::blobs::sealed;
use crate::config::Version;
use crate::crypto::Key;
use crate::error::{Error, Result};
use crate::id::{BlobId, BlobKind, Hasher};
use crate::pack::Builder;

/// A tree that is being written.
pub(crate) struct LargeTree {
    /// Writes behind the nonce, so that the result is sealed in place.
    encoder: zstd::stream::write::Encoder<'static, Vec<u8>>,
    hasher: Hasher,
    length: u64,
}

impl LargeTree {
    /// Adds the next part of the JSON.
    pub(crate) fn push(&mut self, json: &[u8]) -> Result<()> {
        self.length += json.len() as u64;
        if self.length > u64::from(u32::MAX) {
            return Err(Error::invalid(
                "directory",
                "its tree would be larger than 4 GiB, which the format cannot store: exclude a part of its entries, or \
                 move them into several directories",
            ));
        }
        self.hasher.update(json);
        self.encoder.write_all(json).map_err(failed)
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }
}

impl Saver {
    /// Starts a tree that is written in parts; `None` if the repository cannot have compressed blobs.
    pub(crate) fn begin_large_tree(&self) -> Result<Option<LargeTree>> {
        let repository = &self.shared.repository;
        if repository.config().version == Version::V1 {
            return Ok(None);
        }
        let mut sealed = Vec::new();
        Key::begin(&mut sealed);
        let level = repository.options().compression.level();
        let encoder = zstd::stream::write::Encoder::new(sealed, level).map_err(failed)?;
        Ok(Some(LargeTree { encoder, hasher: Hasher::new(), length: 0 }))
    }

    /// Saves a complete tree unless the repository has it.
    pub(crate) fn save_large_tree(&self, tree: LargeTree) -> Result<Saved> {
        self.shared.check_running()?;
        let id = BlobId(tree.hasher.finish());
        let there = Saved { id, new: false, stored: 0 };
        if self.index.has(BlobKind::Tree, &id)? || !self.claims.claim(BlobKind::Tree, id)? {
            return Ok(there);
        }
        let length = u32::try_from(tree.length).unwrap_or(u32::MAX);
        let mut message = tree.encoder.finish().map_err(failed)?;
        let key = self.shared.repository.key();
        key.seal(&mut message, 0);
        if !sealed::contains(key, &message, true, id, tree.length) {
            let detail =
                "it could not be read back, so it was not stored: check this machine for faulty memory";
            return Err(Error::damaged(format!("new tree blob {}", id.short()), detail));
        }
        let stored = message.len() as u64;
        if !self.dry {
            let permit = self.shared.wait_for_room()?;
            let builder = Builder::of_blob(BlobKind::Tree, id, message, length)?;
            upload::start(&self.shared, Filling { builder, permit })?;
        }
        let counters = &self.shared.counters;
        counters.tree_blobs.fetch_add(1, Ordering::Relaxed);
        counters.stored.fetch_add(stored, Ordering::Relaxed);
        counters.added.fetch_add(length.into(), Ordering::Relaxed);
        Ok(Saved { new: true, stored, ..there })
    }
}

fn failed(source: std::io::Error) -> Error {
    Error::Local { action: "compress a large directory".to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::testing::memory_repository;

    #[tokio::test]
    async fn a_tree_that_no_blob_can_hold_is_refused_with_what_to_do() {
        let repository = memory_repository().await;
        let index = Arc::new(repository.load_index().await.unwrap());
        let saver = Saver::start(&repository, index, None, CancellationToken::new());
        let mut tree = saver.begin_large_tree().unwrap().unwrap();
        tree.length = u64::from(u32::MAX) - 2;
        tree.push(b"12").unwrap();
        let error = tree.push(b"3").unwrap_err().to_string();
        assert!(error.contains("4 GiB") && error.contains("several directories"), "{error}");
    }
}
