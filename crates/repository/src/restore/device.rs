//! Restores the only file of a snapshot to a block device, or to an image of one: zeros are not written if the target
//! already reads as zeros, so that a thin volume stays thin, and a target that is too small is refused before
//! anything is written. Takes a snapshot and the opened target; returns what was written. Called by movers, which
//! hold the repository's lock.
//!
//! Memory is bounded: a few reads of at most 4 MiB of sealed and 8 MiB of plain data, or one blob, besides the file's
//! list of blobs.

mod batches;
mod target;

use std::path::Path;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use tokio_util::sync::CancellationToken;

pub use target::DeviceTarget;

use crate::blobs::BlobReader;
use crate::chunker::length_of_zeros;
use crate::error::{Error, Result};
use crate::id::{BlobId, BlobKind, Id};
use crate::progress::Progress;
use crate::repository::Repository;
use crate::snapshot::Snapshot;
use crate::walk::single_file;
use batches::{Batch, Batches, Piece};

/// The number of concurrent reads; each may hold 12 MiB.
const AHEAD: usize = 4;

/// The result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceOutcome {
    /// The size of the device when it was backed up.
    pub bytes: u64,
    pub verified: bool,
}

/// Writes the only file of the snapshot to the target; with `verify`, everything is read again afterwards. If `stored` is given, the file must
/// have this path.
pub async fn restore_device(
    repository: &Repository,
    snapshot: &Snapshot,
    target: DeviceTarget,
    stored: Option<&Path>,
    verify: bool,
    progress: Arc<Progress>,
    cancel: CancellationToken,
) -> Result<DeviceOutcome> {
    let work = async {
        progress.begin("reading the index");
        let reader = BlobReader::new(repository, Arc::new(repository.load_index().await?));
        let (path, node) = single_file(&reader, snapshot.tree).await?;
        if let Some(stored) = stored.filter(|stored| *stored != path) {
            let problem = format!(
                "its only file is '{}'; expected the content of a device at '{}'",
                path.display(),
                stored.display()
            );
            return Err(Error::invalid("snapshot", problem));
        }
        target.must_hold(node.size)?;
        let pieces = Arc::new(batches::locate(&reader, &path, &node)?);
        let target = Arc::new(target);
        progress.begin("restoring");
        progress.add_total(1, node.size);
        progress.total_is_known();
        write(&reader, &pieces, &target, &progress).await?;
        if verify {
            progress.begin("verifying");
            progress.add_total(1, node.size);
            progress.total_is_known();
            check(&reader, &path, &pieces, &target, &progress).await?;
        }
        progress.add_done(1, 0);
        Ok(DeviceOutcome { bytes: node.size, verified: verify })
    };
    tokio::select! {
        outcome = work => outcome,
        () = cancel.cancelled() => Err(Error::Cancelled),
    }
}

async fn write(
    reader: &BlobReader,
    pieces: &Arc<Vec<Piece>>,
    target: &Arc<DeviceTarget>,
    progress: &Arc<Progress>,
) -> Result<()> {
    let clearing = Arc::clone(target);
    blocking(move || {
        clearing.clear();
        Ok(())
    })
    .await?;
    let ahead = AHEAD.min(reader.repository().reads());
    let batches = futures::stream::iter(Batches::new(Arc::clone(pieces)));
    let writing = batches.map(|batch| carry_out(reader.clone(), batch, Arc::clone(target)));
    let mut writing = std::pin::pin!(writing.buffer_unordered(ahead));
    while let Some(bytes) = writing.try_next().await? {
        progress.add_done(0, bytes);
    }
    let syncing = Arc::clone(target);
    blocking(move || syncing.sync()).await
}

/// Fetches, decodes and writes one batch. Returns the number of bytes of the device that it covers.
async fn carry_out(reader: BlobReader, batch: Batch, target: Arc<DeviceTarget>) -> Result<u64> {
    let sealed = match batch.range() {
        None => None,
        Some((key, range)) => {
            let length = range.end - range.start;
            let read = reader.repository().store().get_range(&key, range).await;
            // If this fails, each blob is read separately, from every copy.
            read.ok().filter(|sealed| sealed.len() as u64 == length)
        }
    };
    let runtime = tokio::runtime::Handle::current();
    blocking(move || {
        let mut covered = 0;
        for piece in &batch.pieces {
            let length = u64::from(piece.location.plain_length());
            covered += length;
            if length_of_zeros(&piece.id).is_some() {
                target.zeros(piece.at, length)?;
                continue;
            }
            let mut plain = Vec::new();
            let mut part = sealed.as_ref().and_then(|sealed| batch.part(sealed, piece)).map(<[u8]>::to_vec);
            let decoded = part.as_mut().is_some_and(|part| {
                reader.decode(BlobKind::Data, &piece.id, &piece.location, part, &mut plain).is_ok()
            });
            if !decoded {
                plain = runtime.block_on(reader.load(BlobKind::Data, &piece.id))?.into();
            }
            if plain.len() as u64 != length {
                let detail = "its length differs from the index";
                return Err(Error::damaged(format!("blob {}", piece.id.short()), detail));
            }
            target.write(&plain, piece.at)?;
        }
        Ok(covered)
    })
    .await
}

/// Reads everything again and compares it with the blobs' IDs.
async fn check(
    reader: &BlobReader,
    path: &Path,
    pieces: &Arc<Vec<Piece>>,
    target: &Arc<DeviceTarget>,
    progress: &Arc<Progress>,
) -> Result<()> {
    const AT_ONCE: usize = 16;
    let threads = reader.repository().options().threads.max(1);
    let starts = futures::stream::iter((0..pieces.len()).step_by(AT_ONCE));
    let checking = starts.map(|start| {
        let (pieces, target, path) = (Arc::clone(pieces), Arc::clone(target), path.to_owned());
        blocking(move || {
            let mut bytes = 0;
            for piece in pieces.iter().skip(start).take(AT_ONCE) {
                let content = target.read(piece.at, piece.location.plain_length())?;
                if BlobId::from(Id::of(&content)) != piece.id {
                    let source = std::io::Error::other(format!(
                        "verification: the data at byte {} differs from what was written",
                        piece.at
                    ));
                    return Err(Error::file("verify", path)(source));
                }
                bytes += content.len() as u64;
            }
            Ok(bytes)
        })
    });
    let mut checking = std::pin::pin!(checking.buffer_unordered(threads));
    while let Some(bytes) = checking.try_next().await? {
        progress.add_done(0, bytes);
    }
    Ok(())
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| {
        let source = std::io::Error::other(error);
        Err(Error::Local { action: "continue the restore".to_owned(), source })
    })
}

#[cfg(test)]
mod tests;
