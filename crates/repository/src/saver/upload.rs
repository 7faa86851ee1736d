//! Packs on their way into the store, and the index files that follow them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use jiff::Timestamp;

use super::Shared;
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::index::IndexedPack;
use crate::pack::{Builder, Finished};

/// From a thread: waits until an upload may start.
pub(super) fn blocking(shared: &Arc<Shared>, builder: Builder) -> Result<()> {
    let finished = builder.finish(shared.repository.key())?;
    shared.runtime.block_on(begin(shared, finished))
}

/// From a task.
pub(super) async fn start(shared: &Arc<Shared>, builder: Builder) -> Result<()> {
    begin(shared, builder.finish(shared.repository.key())?).await
}

async fn begin(shared: &Arc<Shared>, pack: Finished) -> Result<()> {
    let permit = tokio::select! {
        permit = Arc::clone(&shared.uploads).acquire_owned() => permit.map_err(|_| Error::Cancelled)?,
        () = shared.cancel.cancelled() => return shared.go_on(),
    };
    let shared = Arc::clone(shared);
    shared.runtime.clone().spawn(async move {
        let uploading = upload(&shared, pack);
        let outcome = tokio::select! {
            outcome = uploading => outcome,
            () = shared.cancel.cancelled() => Err(Error::Cancelled),
        };
        if let Err(error) = outcome {
            shared.fail(error);
        }
        drop(permit);
    });
    Ok(())
}

async fn upload(shared: &Shared, pack: Finished) -> Result<()> {
    let Finished { id, content, blobs } = pack;
    let size = content.len() as u64;
    let indexed = IndexedPack::new(id, &blobs);
    drop(blobs);
    let action = Error::store(format!("write pack {}", id.short()));
    let key = FileKind::Pack.key(id.0);
    shared.repository.store().put(&key, Bytes::from(content)).await.map_err(action)?;
    shared.counters.packs.fetch_add(1, Ordering::Relaxed);
    shared.counters.uploaded.fetch_add(size, Ordering::Relaxed);
    shared.pending.lock().await.add(indexed, Timestamp::now());
    save_index(shared, false).await
}

/// Writes the pending packs into an index file, if it is time or `all` are asked for. The lock is looked at first:
/// without it a prune may have run that does not know these packs' blobs are needed.
pub(super) async fn save_index(shared: &Shared, all: bool) -> Result<()> {
    let Some(file) = shared.pending.lock().await.take(all, Timestamp::now()) else { return Ok(()) };
    if let Some(lock) = &shared.lock {
        lock.verify().await?;
    }
    let json = file.json()?;
    let id = shared.repository.save_file(FileKind::Index, &json).await?;
    tracing::debug!(%id, packs = file.packs.len(), blobs = file.blob_count(), "wrote an index file");
    Ok(())
}

/// Waits until no upload is in flight; fails if one did.
pub(super) async fn wait_for_all(shared: &Shared) -> Result<()> {
    let all = u32::try_from(shared.repository.options().uploads.max(1)).unwrap_or(u32::MAX);
    let _permits = shared.uploads.acquire_many(all).await.map_err(|_| Error::Cancelled)?;
    shared.take_problem().map_or_else(|| shared.go_on(), Err)
}
