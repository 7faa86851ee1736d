//! `repair snapshots`: rewrites damaged snapshots without the lost data. The new snapshot is in the store before the
//! old one is removed, and the old one is only removed if the caller asks for it.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::tree::{Mended, Mender};
use crate::blobs::BlobReader;
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::{BlobId, SnapshotId};
use crate::lock::{Lock, LockKind, LockOptions};
use crate::locked::locked;
use crate::progress::Progress;
use crate::repository::Repository;
use crate::saver::Saver;
use crate::snapshot::Snapshot;

/// The tag of repaired snapshots whose originals still exist.
const TAG: &str = "repaired";

/// Which snapshots to repair, and how.
#[derive(Debug, Clone, Default)]
pub struct RepairSnapshotsOptions {
    pub snapshots: Vec<SnapshotId>,
    /// Remove the originals. A snapshot whose root is lost, or whose own object is damaged, is only removed with this
    /// option; nothing of it is left.
    pub forget: bool,
    pub dry_run: bool,
}

/// A damaged snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RepairedSnapshot {
    pub old: SnapshotId,
    /// `None` for a dry run, and if the root is lost.
    pub new: Option<SnapshotId>,
    /// Nothing of it can be read: its root directory is lost, or its own object is damaged.
    pub root_is_lost: bool,
    pub old_was_removed: bool,
    pub mended: Vec<Mended>,
}

/// The repaired snapshots; intact ones are not listed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RepairSnapshotsOutcome {
    pub looked_at: u64,
    pub repaired: Vec<RepairedSnapshot>,
}

/// Repairs snapshots, under an exclusive lock unless it is a dry run.
pub async fn repair_snapshots(
    repository: &Repository,
    options: &RepairSnapshotsOptions,
    lock: &LockOptions,
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<RepairSnapshotsOutcome> {
    let repository = &repository.without_cache();
    let lock = (!options.dry_run).then_some(lock);
    locked(repository, LockKind::Exclusive, lock, async |lock| {
        run(repository, options, lock, progress, cancel).await
    })
    .await
}

async fn run(
    repository: &Repository,
    options: &RepairSnapshotsOptions,
    lock: Option<Arc<Lock>>,
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<RepairSnapshotsOutcome> {
    progress.begin("reading the index");
    let index = Arc::new(repository.load_index().await?);
    let reader = BlobReader::new(repository, Arc::clone(&index));
    // Threads that share the saver stop when this future is dropped.
    let saving = cancel.child_token();
    let _stop = saving.clone().drop_guard();
    let saver =
        lock.as_ref().map(|lock| Arc::new(Saver::start(repository, index, Some(Arc::clone(lock)), saving)));
    let mender = Mender {
        reader: &reader,
        saver: saver.clone(),
        cancel,
        replaced: HashMap::new(),
        mended: Vec::new(),
    };
    progress.begin("repairing snapshots");
    progress.add_total(options.snapshots.len() as u64, 0);
    progress.total_is_known();
    let (incomplete, damaged) = mend(repository, options, mender, progress).await?;
    // Trees, then their index, then the snapshots that need them.
    if let Some(saver) = saver {
        Arc::into_inner(saver).ok_or(Error::Cancelled)?.finish().await?;
    }
    let mut outcome =
        RepairSnapshotsOutcome { looked_at: options.snapshots.len() as u64, repaired: Vec::new() };
    for snapshot in incomplete {
        outcome.repaired.push(replace(repository, options, lock.as_deref(), snapshot).await?);
    }
    for old in damaged {
        let old_was_removed = remove_damaged(repository, options, lock.as_deref(), old).await?;
        outcome.repaired.push(RepairedSnapshot {
            old,
            new: None,
            root_is_lost: true,
            old_was_removed,
            mended: Vec::new(),
        });
    }
    Ok(outcome)
}

/// A snapshot with losses in its tree.
struct Incomplete {
    id: SnapshotId,
    snapshot: Snapshot,
    /// The repaired tree; `None` if the root is lost.
    tree: Option<BlobId>,
    mended: Vec<Mended>,
}

/// Repairs the trees of all snapshots; returns those that are incomplete, and those whose own object is damaged.
async fn mend(
    repository: &Repository,
    options: &RepairSnapshotsOptions,
    mut mender: Mender<'_>,
    progress: &Progress,
) -> Result<(Vec<Incomplete>, Vec<SnapshotId>)> {
    let (mut incomplete, mut damaged) = (Vec::new(), Vec::new());
    for &id in &options.snapshots {
        let snapshot = match repository.load_snapshot(id).await {
            Ok(snapshot) => snapshot,
            // A store that cannot be read is not damage: it stops the repair.
            Err(Error::Damaged { .. }) => {
                damaged.push(id);
                progress.add_done(1, 0);
                continue;
            }
            Err(error) => return Err(error),
        };
        let tree = mender.mend(snapshot.tree).await?;
        progress.add_done(1, 0);
        if tree != Some(snapshot.tree) {
            incomplete.push(Incomplete { id, snapshot, tree, mended: std::mem::take(&mut mender.mended) });
        }
    }
    Ok((incomplete, damaged))
}

/// Writes the new snapshot, then removes the old one if the caller asked for it. Without a lock nothing is written.
async fn replace(
    repository: &Repository,
    options: &RepairSnapshotsOptions,
    lock: Option<&Lock>,
    incomplete: Incomplete,
) -> Result<RepairedSnapshot> {
    let Incomplete { id: old, mut snapshot, tree, mended } = incomplete;
    let mut repaired =
        RepairedSnapshot { old, new: None, root_is_lost: tree.is_none(), old_was_removed: false, mended };
    let Some(lock) = lock else { return Ok(repaired) };
    lock.verify().await?;
    if let Some(tree) = tree {
        snapshot.tree = tree;
        snapshot.original = Some(old);
        if !options.forget && !snapshot.tags.iter().any(|tag| tag == TAG) {
            snapshot.tags.push(TAG.to_owned());
        }
        repaired.new = Some(repository.save_snapshot(&snapshot).await?);
    }
    if options.forget {
        repository.remove_file(FileKind::Snapshot, old.0).await?;
        repaired.old_was_removed = true;
    }
    Ok(repaired)
}

/// Removes a snapshot whose object is damaged, if the caller asked for it and it is still damaged.
async fn remove_damaged(
    repository: &Repository,
    options: &RepairSnapshotsOptions,
    lock: Option<&Lock>,
    id: SnapshotId,
) -> Result<bool> {
    let Some(lock) = lock.filter(|_| options.forget) else { return Ok(false) };
    match repository.load_snapshot(id).await {
        Ok(_) => {
            let detail = "it could be read only at the second attempt";
            return Err(Error::damaged(FileKind::Snapshot.describe(id.0), detail));
        }
        Err(Error::Damaged { .. }) => {}
        Err(error) => return Err(error),
    }
    lock.verify().await?;
    repository.remove_file(FileKind::Snapshot, id.0).await?;
    Ok(true)
}
