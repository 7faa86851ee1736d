//! Frees space that no snapshot needs. Takes a repository, options and the exclusive lock; returns the plan and the
//! result. `plan` decides (no I/O), this module reads what the decision needs, `execute` carries it out.
//!
//! Everything is read in a safe order (snapshots, then the index, then the packs: the reverse of the order in which
//! backups write), and changed in a safe order (new packs, new index files, old index files, marks, and packs last).
//! If a prune crashes at any point, every snapshot is still complete, and the next prune finishes the work.
//!
//! For the cases in which a prune is refused, see `plan`. In addition, the snapshots are listed once more before
//! anything is changed, and the index is read once more before any pack is deleted.

mod execute;
mod index_copies;
pub(crate) mod marks;
pub mod plan;
mod repack;
mod rewrite;
mod used;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::config::Version;
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::{Id, PackId, SnapshotId};
use crate::index::Index;
use crate::listing;
use crate::lock::{Lock, LockKind, LockOptions, store_clock};
use crate::progress::Progress;
use crate::repository::Repository;
use crate::snapshots::Loaded;
use index_copies::IndexCopies;
use marks::Marks;
use plan::{Input, ListedPack, PrunePlan};

/// Options of a prune.
#[derive(Debug, Clone, Default)]
pub struct PruneOptions {
    pub plan: plan::Options,
    /// Treat these snapshots as deleted: only for the dry run of a forget that prunes.
    pub without: HashSet<SnapshotId>,
    /// Only decide.
    pub dry_run: bool,
}

/// The decision and the result.
#[derive(Debug)]
pub struct Pruned {
    pub plan: PrunePlan,
    /// What was done; all zero after a dry run.
    pub done: Done,
    /// False if the store cannot keep the marks (restic's REST server): packs that were removed from the index stay
    /// in the store until a prune with a grace period of 0.
    pub marks_kept: bool,
}

/// What a prune did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Done {
    pub packs_written: u64,
    pub bytes_written: u64,
    pub index_files_written: u64,
    pub index_files_removed: u64,
    pub packs_deleted: u64,
    pub bytes_deleted: u64,
    /// Unfinished files of crashed writers; only if the store is a directory.
    pub unfinished_removed: u64,
}

/// Prunes under the exclusive lock.
pub async fn prune(
    repository: &Repository,
    options: &PruneOptions,
    lock: &LockOptions,
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<Pruned> {
    Lock::hold(repository, LockKind::Exclusive, lock, |lock| async move {
        prune_locked(repository, options, &lock, progress, cancel).await
    })
    .await
}

/// Prunes for a caller that already holds the exclusive lock: a forget that prunes.
pub async fn prune_locked(
    repository: &Repository,
    options: &PruneOptions,
    lock: &Arc<Lock>,
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<Pruned> {
    lock.must_be_exclusive()?;
    let work = async {
        let (mut gathered, plan) = decide(repository, options, progress).await?;
        let done = if options.dry_run {
            Done::default()
        } else {
            execute::execute(repository, &mut gathered, &plan, options.plan.grace, lock, progress, cancel)
                .await?
        };
        Ok(Pruned { plan, done, marks_kept: gathered.marks.supported })
    };
    tokio::select! {
        outcome = work => outcome,
        () = cancel.cancelled() => Err(Error::Cancelled),
    }
}

/// Decides what a prune would do. Only reads (so the current time is ours, not the store's) and needs no lock.
pub async fn dry_run(
    repository: &Repository,
    options: &PruneOptions,
    progress: &Progress,
) -> Result<PrunePlan> {
    let options = PruneOptions { dry_run: true, ..options.clone() };
    Ok(decide(repository, &options, progress).await?.1)
}

/// What was read for the decision and is needed to carry it out.
struct Gathered {
    /// The snapshots of the first listing.
    snapshots: BTreeSet<Id>,
    index: Arc<Index>,
    marks: Marks,
    /// Sorted.
    sizes: Vec<(PackId, u64)>,
}

impl Gathered {
    fn size(&self, pack: &PackId) -> u64 {
        let found = self.sizes.binary_search_by(|(id, _)| id.cmp(pack));
        found.ok().and_then(|at| self.sizes.get(at)).map_or(0, |(_, size)| *size)
    }
}

/// Refuses to continue if it is unknown what a snapshot needs.
fn refuse_unknown_needs(loaded: &Loaded, options: &PruneOptions) -> Result<()> {
    if !options.dry_run && loaded.ids().any(|id| options.without.contains(&id)) {
        let problem = "they are still in the repository; only a dry run may ignore them";
        return Err(Error::invalid("snapshots to leave out", problem));
    }
    if let Some(damaged) = loaded.damaged.iter().find(|damaged| !options.without.contains(&damaged.id)) {
        return Err(Error::Refused {
            reason: format!(
                "snapshot {} is damaged ({}), so it is unknown which data it needs",
                damaged.id, damaged.detail
            ),
            hint: "nothing was changed; bring the object back from a copy of the repository, or remove the snapshot \
                   with `forget ID`, then prune",
        });
    }
    Ok(())
}

async fn decide(
    repository: &Repository,
    options: &PruneOptions,
    progress: &Progress,
) -> Result<(Gathered, PrunePlan)> {
    progress.begin("reading the snapshots");
    let loaded = repository.load_all_snapshots().await?;
    refuse_unknown_needs(&loaded, options)?;
    let snapshots = loaded.found;
    progress.begin("reading the index");
    let index = Arc::new(repository.load_index().await?);
    progress.begin("finding what is used");
    let kept = snapshots.iter().filter(|(id, _)| !options.without.contains(id));
    let roots: Vec<_> = kept.map(|(_, snapshot)| snapshot.tree).collect();
    let used = used::find(repository, &index, &roots, progress).await?;
    progress.begin("listing the packs");
    let packs = repository.list(FileKind::Pack).await?;
    let listed: Vec<ListedPack> = packs
        .iter()
        .map(|file| ListedPack { id: PackId(file.id), size: file.size, modified: file.modified })
        .collect();
    drop(packs);
    let mut sizes: Vec<_> = listed.iter().map(|pack| (pack.id, pack.size)).collect();
    sizes.sort_unstable();
    let lacking = index.packs().iter().filter(|pack| sizes.binary_search_by(|(id, _)| id.cmp(pack)).is_err());
    listing::require_absent(repository, lacking.copied()).await?;
    let marks = Marks::load(repository).await?;
    // Without marks, no age is needed.
    let by_store = marks.supported && !options.dry_run;
    let now = if by_store { store_clock(repository).await? } else { Timestamp::now() };
    progress.begin("deciding");
    let gathered = Gathered {
        snapshots: snapshots.iter().map(|(id, _)| id.0).collect(),
        index: Arc::clone(&index),
        marks,
        sizes,
    };
    let plan_options = plan::Options { exclusive: true, ..options.plan.clone() };
    let compresses = repository.config().version == Version::V2;
    // Takes minutes for a very large index, so it must not run on a thread that also renews the lock.
    let deciding = tokio::task::spawn_blocking(move || {
        let input = Input {
            copies: &IndexCopies(&index),
            index_packs: index.packs(),
            used: &used.entries,
            missing: &used.missing,
            snapshots: roots.len(),
            listed: &listed,
            marks: &gathered.marks.times,
            now,
            compresses,
        };
        plan::plan(&input, &plan_options).map(|plan| (gathered, plan))
    });
    deciding.await.unwrap_or(Err(Error::Cancelled))
}

#[cfg(test)]
mod tests;
