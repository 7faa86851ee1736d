//! Removes packs from the index files. Files that name one of the packs are rewritten without it, and small files are
//! merged; full files that name none of them are not changed. New files are written before any old one is removed, so
//! that all packs that are kept are always named.

use std::collections::HashSet;

use futures::{StreamExt, TryStreamExt, stream};

use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::{Id, IndexId, PackId};
use crate::index::{IndexFile, IndexedPack};
use crate::lock::Lock;
use crate::progress::Progress;
use crate::repository::Repository;

/// The number of blobs in a full index file, as in restic.
const FULL: usize = 50_000;

/// How many index files are read concurrently.
const CONCURRENT: usize = 4;

/// The result of rewriting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rewritten {
    pub(super) written: u64,
    pub(super) removed: u64,
}

/// Removes the packs `leaving` (sorted) from the index files `files`.
pub(super) async fn rewrite(
    repository: &Repository,
    files: &[IndexId],
    leaving: &[PackId],
    lock: &Lock,
    progress: &Progress,
) -> Result<Rewritten> {
    progress.begin("rewriting the index");
    progress.add_total(files.len() as u64, 0);
    let mut named = HashSet::new();
    let mut obsolete = Vec::new();
    let mut loading = stream::iter(files).map(|id| load(repository, *id)).buffered(CONCURRENT);
    while let Some((id, file)) = loading.try_next().await? {
        let leaves = |pack: &IndexedPack| leaving.binary_search(&pack.id).is_ok();
        if file.blob_count() < FULL || file.packs.iter().any(leaves) {
            obsolete.push(id);
        } else {
            named.extend(file.packs.iter().map(fingerprint));
            progress.add_done(1, 0);
        }
    }
    drop(loading);
    let written = write_again(repository, &obsolete, leaving, &mut named, lock, progress).await?;
    // The packs in the new files are in the store; if the lock is lost, another process may rely on the old files.
    lock.verify().await?;
    let keys = obsolete.iter().map(|id| FileKind::Index.key(id.0));
    repository.store().delete_many(keys).await.map_err(Error::store("remove old index files"))?;
    Ok(Rewritten { written, removed: obsolete.len() as u64 })
}

/// Writes the remaining packs of the files in `obsolete`, without those that a kept file names identically (an
/// interrupted prune leaves such duplicates).
async fn write_again(
    repository: &Repository,
    obsolete: &[IndexId],
    leaving: &[PackId],
    named: &mut HashSet<u128>,
    lock: &Lock,
    progress: &Progress,
) -> Result<u64> {
    let mut new = IndexFile::default();
    let mut blobs = 0;
    let mut written = 0;
    let mut loading = stream::iter(obsolete).map(|id| load(repository, *id)).buffered(CONCURRENT);
    while let Some((_, file)) = loading.try_next().await? {
        for pack in file.packs {
            if leaving.binary_search(&pack.id).is_err() && named.insert(fingerprint(&pack)) {
                blobs += pack.blobs().len();
                new.packs.push(pack);
            }
            if blobs >= FULL {
                save(repository, &std::mem::take(&mut new), lock).await?;
                written += 1;
                blobs = 0;
            }
        }
        progress.add_done(1, 0);
    }
    if !new.packs.is_empty() {
        save(repository, &new, lock).await?;
        written += 1;
    }
    Ok(written)
}

async fn load(repository: &Repository, id: IndexId) -> Result<(IndexId, IndexFile)> {
    let plain = repository.load_file(FileKind::Index, id.0).await?;
    IndexFile::parse(&plain).map(|file| (id, file)).map_err(|error| match error {
        Error::Damaged { detail, .. } => Error::damaged(FileKind::Index.describe(id.0), detail),
        other => other,
    })
}

async fn save(repository: &Repository, file: &IndexFile, lock: &Lock) -> Result<()> {
    lock.verify().await?;
    repository.save_file(FileKind::Index, &file.json()?).await.map(drop)
}

/// A hash of a pack with all its blobs.
fn fingerprint(pack: &IndexedPack) -> u128 {
    let mut bytes = pack.id.0.0.to_vec();
    for blob in pack.blobs() {
        bytes.extend_from_slice(&blob.id.0.0);
        for number in [blob.offset, blob.length, blob.uncompressed_length, blob.kind as u32] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
    }
    let hash = Id::of(&bytes).0;
    u128::from_be_bytes(std::array::from_fn(|at| hash[at]))
}
