//! Uploads packs, and writes the index files for them.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use jiff::Timestamp;
use tokio::sync::OwnedSemaphorePermit;

use super::packer::Filling;
use super::{Shared, packs_in_memory};
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::index::IndexedPack;
use crate::pack::Finished;

/// How much larger than a pack a buffer may be that is used again: as new ones are.
const LARGEST_REUSED: usize = crate::chunker::MAX_SIZE + (2 << 20);

/// Completes a pack on this thread and uploads it in the background.
pub(super) fn start(shared: &Arc<Shared>, filling: Filling) -> Result<()> {
    let Filling { builder, permit } = filling;
    let pack = builder.finish(shared.repository.key())?;
    let mut flight = Flight { shared: Arc::clone(shared), outcome: None, _permit: permit };
    shared.runtime.spawn(async move {
        let outcome = tokio::select! {
            outcome = upload(&flight.shared, pack) => outcome,
            () = flight.shared.cancel.cancelled() => Err(Error::Cancelled),
        };
        flight.end(outcome);
    });
    Ok(())
}

/// An upload in progress. However its task ends, the permit is released only after the outcome is recorded.
struct Flight {
    shared: Arc<Shared>,
    /// `None` if the task panicked or was dropped.
    outcome: Option<Result<()>>,
    _permit: OwnedSemaphorePermit,
}

impl Flight {
    fn end(&mut self, outcome: Result<()>) {
        self.outcome = Some(outcome);
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let broken_off = || {
            let source = std::io::Error::other("its task ended early");
            Err(Error::Local { action: "upload a pack".to_owned(), source })
        };
        if let Err(error) = self.outcome.take().unwrap_or_else(broken_off) {
            self.shared.fail(error);
        }
    }
}

async fn upload(shared: &Shared, pack: Finished) -> Result<()> {
    let Finished { id, content, blobs } = pack;
    let indexed = IndexedPack::new(id, &blobs);
    drop(blobs);
    let content = Bytes::from(content);
    let turn = shared.uploads.acquire().await.map_err(|_| Error::Cancelled)?;
    let action = Error::store(format!("write pack {}", id.short()));
    shared.repository.store().put(&FileKind::Pack.key(id.0), content.clone()).await.map_err(action)?;
    drop(turn);
    shared.counters.packs.fetch_add(1, Ordering::Relaxed);
    shared.counters.uploaded.fetch_add(content.len() as u64, Ordering::Relaxed);
    recycle(shared, content);
    shared.pending.lock().await.add(indexed, Timestamp::now());
    save_index(shared, false).await
}

/// The next pack reuses the memory: freeing it each time fragments the heap.
fn recycle(shared: &Shared, content: Bytes) {
    if content.is_unique() {
        let mut buffer = Vec::from(content);
        let size = shared.repository.options().pack_size;
        // A buffer that held a large tree is dropped: it would keep its memory.
        if (size + 1..=LARGEST_REUSED + size).contains(&buffer.capacity()) {
            buffer.clear();
            shared.buffers.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
        }
    }
}

/// Writes the pending packs to an index file, if it is time or if `all` is set. The lock is verified first: without
/// it, a prune may have run that does not know that these packs' blobs are needed.
pub(super) async fn save_index(shared: &Shared, all: bool) -> Result<()> {
    let Some(file) = shared.pending.lock().await.take(all, Timestamp::now()) else { return Ok(()) };
    if let Some(lock) = &shared.lock {
        lock.verify().await?;
    }
    let json = file.json()?;
    let id = shared.repository.save_file(FileKind::Index, &json).await?;
    let blobs = file.blob_count();
    shared.counters.indexed.fetch_add(blobs as u64, Ordering::Relaxed);
    tracing::debug!(%id, packs = file.packs.len(), blobs, "wrote an index file");
    Ok(())
}

/// Waits until no upload is in progress; fails if one failed.
pub(super) async fn wait_for_all(shared: &Shared) -> Result<()> {
    let _room =
        shared.room.acquire_many(packs_in_memory(&shared.repository)).await.map_err(|_| Error::Cancelled)?;
    shared.take_problem().map_or_else(|| shared.check_running(), Err)
}
