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

impl Packer {
    /// Adds a blob; returns the pack if it is full. Waits for an upload to finish before it starts another pack.
    pub(super) fn add(
        &mut self,
        shared: &Shared,
        kind: BlobKind,
        id: BlobId,
        sealed: &[u8],
        uncompressed_length: u32,
    ) -> Result<Option<Filling>> {
        let filling = match &mut self.0 {
            Some(filling) => filling,
            empty => empty.insert(shared.begin_pack(kind)?),
        };
        filling.builder.add(kind, id, sealed, uncompressed_length)?;
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
    fn begin_pack(&self, kind: BlobKind) -> Result<Filling> {
        let waiting = async {
            tokio::select! {
                permit = Arc::clone(&self.permits).acquire_owned() => permit.map_err(|_| Error::Cancelled),
                () = self.cancel.cancelled() => Err(self.take_problem().unwrap_or(Error::Cancelled)),
            }
        };
        let permit = self.runtime.block_on(waiting)?;
        let buffer = match kind {
            // Space for a last blob that exceeds the size and for the header; untouched memory costs nothing.
            BlobKind::Data => self.take_buffer().unwrap_or_else(|| {
                Vec::with_capacity(self.repository.options().pack_size + crate::chunker::MAX_SIZE + (1 << 20))
            }),
            BlobKind::Tree => Vec::new(),
        };
        Ok(Filling { builder: Builder::into_buffer(buffer), permit })
    }

    fn take_buffer(&self) -> Option<Vec<u8>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}
