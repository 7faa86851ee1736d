//! Carries out a plan, in an order that is safe at every step: void marks are removed, used blobs are written again,
//! packs are removed from the index, marks are written, and finally packs that no index names are deleted.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::plan::PrunePlan;
use super::{Done, Gathered, repack, rewrite};
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::PackId;
use crate::index::Index;
use crate::lock::{Lock, store_clock};
use crate::progress::Progress;
use crate::repository::Repository;

/// How many packs are deleted between two checks of the lock.
const DELETED_AT_ONCE: usize = 1000;

pub(super) async fn execute(
    repository: &Repository,
    gathered: &mut Gathered,
    plan: &PrunePlan,
    grace: Duration,
    lock: &Arc<Lock>,
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<Done> {
    let mut done = Done::default();
    same_snapshots(repository, gathered).await?;
    lock.verify().await?;
    let due: HashMap<PackId, Timestamp> = known(gathered, &plan.delete);
    if !plan.void_marks.is_empty() {
        let mut valid = gathered.marks.times.clone();
        valid.retain(|pack, _| plan.void_marks.binary_search(pack).is_err());
        gathered.marks.replace(repository, valid).await?;
    }
    if plan.changes_index() {
        if plan.copies_to_repack.count() > 0 {
            let totals = repack::repack(repository, &gathered.index, plan, lock, progress, cancel).await?;
            (done.packs_written, done.bytes_written) = (totals.packs, totals.uploaded);
        }
        same_snapshots(repository, gathered).await?;
        let leaving = plan.leaves_index();
        let rewritten =
            rewrite::rewrite(repository, gathered.index.files(), &leaving, lock, progress).await?;
        (done.index_files_written, done.index_files_removed) = (rewritten.written, rewritten.removed);
    }
    write_marks(repository, gathered, plan, &due).await?;
    if !plan.delete.is_empty() {
        delete(repository, gathered, plan, lock, progress, &mut done).await?;
        let mut left = gathered.marks.times.clone();
        left.retain(|pack, _| !due.contains_key(pack));
        gathered.marks.replace(repository, left).await?;
    }
    done.unfinished_removed = remove_unfinished(repository, grace).await;
    Ok(done)
}

/// Removes unfinished files of crashed writers after a day, or after the grace period if that is longer; after an
/// hour if there is no grace period: under the exclusive lock there are no writers, and a writer without a lock only
/// gets an error.
async fn remove_unfinished(repository: &Repository, grace: Duration) -> u64 {
    let age = if grace.is_zero() { Duration::from_hours(1) } else { grace.max(Duration::from_hours(24)) };
    let removed = repository.store().remove_unfinished(age).await;
    removed.unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot remove unfinished files of crashed writers");
        0
    })
}

/// Waiting packs keep their times; packs that were just removed from the index get the current time, determined after
/// the index was changed.
async fn write_marks(
    repository: &Repository,
    gathered: &mut Gathered,
    plan: &PrunePlan,
    due: &HashMap<PackId, Timestamp>,
) -> Result<()> {
    let mut times: HashMap<PackId, Timestamp> = plan.waiting.iter().copied().collect();
    times.extend(due);
    if !plan.mark.is_empty() && gathered.marks.supported {
        let now = store_clock(repository).await?;
        times.extend(plan.mark.iter().map(|pack| (*pack, now)));
    }
    gathered.marks.replace(repository, times).await
}

/// Deletes the packs of the plan, after all indexes were read again.
async fn delete(
    repository: &Repository,
    gathered: &Gathered,
    plan: &PrunePlan,
    lock: &Lock,
    progress: &Progress,
    done: &mut Done,
) -> Result<()> {
    progress.begin("reading the index again");
    let index = repository.load_index().await?;
    check_index(&index, gathered, plan)?;
    progress.begin("deleting packs");
    progress.add_total(plan.delete.len() as u64, 0);
    for packs in plan.delete.chunks(DELETED_AT_ONCE) {
        lock.verify().await?;
        let keys = packs.iter().map(|pack| FileKind::Pack.key(pack.0));
        repository.store().delete_many(keys).await.map_err(Error::store("delete packs"))?;
        let bytes = packs.iter().map(|pack| gathered.size(pack)).sum::<u64>();
        done.packs_deleted += packs.len() as u64;
        done.bytes_deleted += bytes;
        progress.add_done(packs.len() as u64, bytes);
    }
    Ok(())
}

/// The current index must name every pack that is kept and none that is to be deleted, and every blob that was
/// written again must be in a new pack.
fn check_index(index: &Index, gathered: &Gathered, plan: &PrunePlan) -> Result<()> {
    let refused = |reason: String| Error::Refused {
        reason,
        hint: "no pack was deleted; run `check`, and prune again when no other process uses the repository",
    };
    let named: HashSet<&PackId> = index.packs().iter().collect();
    let leaving: BTreeSet<PackId> = plan.leaves_index().into_iter().collect();
    if let Some(pack) = plan.delete.iter().find(|pack| named.contains(pack)) {
        return Err(refused(format!("an index names pack {pack}, which should be deleted")));
    }
    let stays = gathered.index.packs().iter().filter(|pack| !leaving.contains(pack));
    if let Some(pack) = stays.into_iter().find(|pack| !named.contains(pack)) {
        return Err(refused(format!("no index names pack {pack} any more, which should be kept")));
    }
    gathered.index.for_each(&mut |entry| {
        if plan.copies_to_repack.contains(entry.number) {
            let copies = index.find_all(entry.kind, &entry.id)?;
            if !copies.iter().any(|copy| !leaving.contains(&copy.location.pack)) {
                return Err(refused(format!("{} blob {} is in no new pack", entry.kind, entry.id)));
            }
        }
        Ok(())
    })
}

/// The snapshots must be those from which the decision was made: under the exclusive lock nothing else changes them,
/// so a difference means that a listing was wrong or that the lock does not work.
async fn same_snapshots(repository: &Repository, gathered: &Gathered) -> Result<()> {
    let listed: BTreeSet<_> =
        repository.list(FileKind::Snapshot).await?.into_iter().map(|file| file.id).collect();
    if listed == gathered.snapshots {
        return Ok(());
    }
    Err(Error::Refused {
        reason: format!(
            "there were {} snapshots when the prune started, now there are {}, or other ones",
            gathered.snapshots.len(),
            listed.len()
        ),
        hint: "no pack was deleted; prune again when no other process uses the repository",
    })
}

/// The marks of these packs.
fn known(gathered: &Gathered, packs: &[PackId]) -> HashMap<PackId, Timestamp> {
    let mark = |pack: &PackId| gathered.marks.times.get(pack).map(|time| (*pack, *time));
    packs.iter().filter_map(mark).collect()
}
