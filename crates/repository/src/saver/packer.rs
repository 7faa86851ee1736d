//! Packs in memory: one of each kind is being filled, and each holds a permit until it is uploaded. Called by
//! `Saver`, which uploads full packs.

use std::sync::{Arc, PoisonError};

use tokio::sync::OwnedSemaphorePermit;

use super::Shared;
use crate::error::{Error, Result};
use crate::id::{BlobId, BlobKind};
use crate::pack::Builder;

/// The pack of one kind that is being filled.
#[derive(Debug, Default)]
pub(super) struct Packer(Option<Filling>);

/// A pack in memory, with its permit.
#[derive(Debug)]
pub(super) struct Filling {
    pub(super) builder: Builder,
    pub(super) permit: OwnedSemaphorePermit,
}

/// A blob that is ready for a pack.
pub(super) struct SealedBlob<'a> {
    pub(super) kind: BlobKind,
    pub(super) id: BlobId,
    pub(super) sealed: &'a [u8],
    pub(super) uncompressed_length: u32,
}

impl Packer {
    pub(super) fn is_filling(&self) -> bool {
        self.0.is_some()
    }

    /// Starts a pack.
    pub(super) fn begin(&mut self, filling: Filling) {
        self.0 = Some(filling);
    }

    /// Adds a blob to the current pack; returns the pack if it is full.
    pub(super) fn add(&mut self, shared: &Shared, blob: &SealedBlob<'_>) -> Result<Option<Filling>> {
        let Some(filling) = &mut self.0 else { return Ok(None) };
        filling.builder.add(blob.kind, blob.id, blob.sealed, blob.uncompressed_length)?;
        let size = shared.repository.options().pack_size;
        let is_full = filling.builder.size() >= size || filling.builder.has_many_blobs();
        Ok(if is_full { self.0.take() } else { None })
    }

    /// The current pack, however full.
    pub(super) fn take(&mut self) -> Option<Filling> {
        self.0.take()
    }
}

impl Shared {
    /// Waits until one more pack may be in memory.
    pub(super) fn wait_for_room(&self) -> Result<OwnedSemaphorePermit> {
        self.runtime.block_on(async {
            tokio::select! {
                room = Arc::clone(&self.room).acquire_owned() => room.map_err(|_| Error::Cancelled),
                () = self.cancel.cancelled() => Err(self.take_problem().unwrap_or(Error::Cancelled)),
            }
        })
    }

    pub(super) fn begin_pack(&self, kind: BlobKind, permit: OwnedSemaphorePermit) -> Filling {
        let buffer = match kind {
            // Space for a last blob that exceeds the size and for the header; untouched memory costs nothing.
            BlobKind::Data => self.take_buffer().unwrap_or_else(|| {
                Vec::with_capacity(self.repository.options().pack_size + crate::chunker::MAX_SIZE + (1 << 20))
            }),
            BlobKind::Tree => Vec::new(),
        };
        Filling { builder: Builder::into_buffer(buffer), permit }
    }

    fn take_buffer(&self) -> Option<Vec<u8>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}
