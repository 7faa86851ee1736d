//! Checks a repository: everything that the index names exists, every tree of every snapshot can be read and its
//! blobs are in the index, and, on request, every byte of every pack is correct. Problems are returned as values; an
//! `Err` means that the check itself could not be carried out. Called by `check` and before a migration.

mod damage;
mod index;
mod packs;
mod read;
mod report;
mod subset;
mod trees;

pub use report::{CheckError, CheckHint, CheckOutcome, CheckSummary, ErrorKind, HintKind};
pub use subset::{ReadData, Subset};

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::blobs::BlobReader;
use crate::error::Result;
use crate::id::SnapshotId;
use crate::lock::{LockKind, LockOptions};
use crate::locked::locked;
use crate::progress::Progress;
use crate::repository::Repository;
use crate::walk::EntrySet;
use report::Report;

/// What to check.
#[derive(Debug, Clone, Default)]
pub struct CheckOptions {
    pub read: ReadData,
    /// Check only these snapshots and the packs that they need; all if `None`.
    pub snapshots: Option<Vec<SnapshotId>>,
}

/// Checks a repository under an exclusive lock, or without one (`--no-lock`).
pub async fn check(
    repository: &Repository,
    options: &CheckOptions,
    lock: Option<&LockOptions>,
    progress: Arc<Progress>,
    cancel: CancellationToken,
) -> Result<CheckOutcome> {
    locked(repository, LockKind::Exclusive, lock, |_| run(repository, options, &progress, &cancel)).await
}

/// The check itself, for callers that hold a lock.
pub(crate) async fn run(
    repository: &Repository,
    options: &CheckOptions,
    progress: &Arc<Progress>,
    cancel: &CancellationToken,
) -> Result<CheckOutcome> {
    let repository = &repository.without_cache();
    let report = Arc::new(Report::new(Arc::clone(progress)));
    // Before the index: a backup that ends in between would name blobs that an index read earlier does not have.
    let snapshots = trees::load_snapshots(repository, options, &report).await?;
    index::check_keys(repository, &report).await?;
    progress.begin("reading the index");
    let before = report.errors();
    let loaded = index::load(repository, &report).await?;
    // Blobs that a damaged index lacks would be reported as missing again and again; the index must be repaired
    // first.
    if report.errors() == before {
        let index = Arc::new(loaded);
        progress.begin("checking the packs");
        let packs = packs::check_packs(repository, &index, &report).await?;
        progress.begin("checking trees");
        let reader = BlobReader::new(repository, Arc::clone(&index));
        let used = Arc::new(EntrySet::new(index.len()));
        trees::check_trees(&reader, &snapshots, &used, &report, progress, cancel).await?;
        let used = options.snapshots.is_some().then_some(&*used);
        let chosen = subset::choose(&options.read, packs, &index, used)?;
        progress.begin("reading the packs");
        read::read_packs(&reader, chosen, &report, progress, cancel).await?;
        if report.errors() > 0 {
            progress.begin("finding the affected snapshots");
            damage::find_snapshots(&reader, &snapshots, &report, cancel).await?;
        }
    }
    Ok(Report::finish(&report, snapshots.len() as u64))
}

#[cfg(test)]
mod tests;
