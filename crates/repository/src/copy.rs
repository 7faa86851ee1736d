//! Copies snapshots into another repository: blobs that the target lacks are read, decoded, and saved with the
//! target's key. A snapshot that was copied before is skipped. Snapshots are written in batches, once their blobs and
//! index are in the store, so that an interrupted copy need not start again.

mod blobs;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::blobs::BlobReader;
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::{BlobId, BlobKind, SnapshotId};
use crate::index::Index;
use crate::lock::{Lock, LockKind, LockOptions};
use crate::locked::locked;
use crate::progress::Progress;
use crate::repository::Repository;
use crate::saver::Saver;
use crate::snapshot::Snapshot;
use crate::used::unreadable;
use crate::walk::{EntrySet, Root, Visit, visit_trees};

/// Snapshots are written each time this many packs were stored.
const BATCH_PACKS: u64 = 100;

/// A snapshot and its copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Copied {
    pub source: SnapshotId,
    pub target: SnapshotId,
}

/// What was copied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CopyOutcome {
    pub copied: Vec<Copied>,
    /// Already in the target, as the snapshot `target`.
    pub skipped: Vec<Copied>,
    pub blobs: u64,
    /// Plain size of the blobs that the target lacked, in bytes.
    pub added: u64,
    /// Stored size of these blobs in the target, in bytes.
    pub stored: u64,
}

/// Copies snapshots, with a shared lock on each repository (none on the source if there are no options for it).
pub async fn copy(
    source: &Repository,
    target: &Repository,
    snapshots: &[SnapshotId],
    source_lock: Option<&LockOptions>,
    target_lock: &LockOptions,
    progress: Arc<Progress>,
    cancel: CancellationToken,
) -> Result<CopyOutcome> {
    locked(source, LockKind::Shared, source_lock, async |_| {
        Lock::hold(target, LockKind::Shared, target_lock, async |lock| {
            Copy { source, target, lock: &lock, progress: &progress, cancel: &cancel }.run(snapshots).await
        })
        .await
    })
    .await
}

struct Copy<'a> {
    source: &'a Repository,
    target: &'a Repository,
    lock: &'a Arc<Lock>,
    progress: &'a Progress,
    cancel: &'a CancellationToken,
}

impl Copy<'_> {
    async fn run(&self, snapshots: &[SnapshotId]) -> Result<CopyOutcome> {
        let mut outcome = CopyOutcome::default();
        self.progress.begin("reading the snapshots");
        let mut waiting = self.select(snapshots, &mut outcome).await?;
        self.progress.begin("reading the indexes");
        let reader = BlobReader::new(self.source, Arc::new(self.source.load_index().await?));
        let visited = EntrySet::new(reader.index().len());
        while !waiting.is_empty() {
            let index = Arc::new(self.target.load_index().await?);
            self.batch(&mut waiting, &reader, &visited, index, &mut outcome).await?;
        }
        Ok(outcome)
    }

    /// The snapshots that the target does not have yet.
    async fn select(
        &self,
        wanted: &[SnapshotId],
        outcome: &mut CopyOutcome,
    ) -> Result<VecDeque<(SnapshotId, Snapshot)>> {
        let mut there: HashMap<SnapshotId, Vec<(SnapshotId, Snapshot)>> = HashMap::new();
        for (id, snapshot) in self.target.load_readable_snapshots().await?.found {
            if let Some(original) = snapshot.original {
                there.entry(original).or_default().push((id, snapshot.clone()));
            }
            there.entry(id).or_default().push((id, snapshot));
        }
        let mut selected = VecDeque::new();
        for id in wanted {
            let snapshot = self.source.load_snapshot(*id).await?;
            let candidates = there.get(&snapshot.original.unwrap_or(*id)).into_iter().flatten();
            match candidates.into_iter().find(|(_, other)| are_similar(other, &snapshot)) {
                Some((target, _)) => outcome.skipped.push(Copied { source: *id, target: *target }),
                None => selected.push_back((*id, snapshot)),
            }
        }
        Ok(selected)
    }

    /// Copies snapshots until enough data is stored, and writes them.
    async fn batch(
        &self,
        waiting: &mut VecDeque<(SnapshotId, Snapshot)>,
        reader: &BlobReader,
        visited: &EntrySet,
        index: Arc<Index>,
        outcome: &mut CopyOutcome,
    ) -> Result<()> {
        let lock = Some(Arc::clone(self.lock));
        // Threads that share the saver stop when this future is dropped.
        let cancel = self.cancel.child_token();
        let _stop = cancel.clone().drop_guard();
        let saver = Arc::new(Saver::start(self.target, index, lock, cancel));
        let enough = BATCH_PACKS.saturating_mul(self.target.options().pack_size as u64);
        let mut done = Vec::new();
        while let Some((id, snapshot)) = waiting.pop_front() {
            let wanted = self.find_wanted(reader, visited, &saver, (id, snapshot.tree)).await?;
            self.progress.begin("copying blobs");
            let copying = blobs::copy_entries(reader, &wanted, &saver, self.progress, self.cancel).await;
            copying.map_err(|error| match error {
                Error::Damaged { what, detail } => {
                    let snapshot = FileKind::Snapshot.describe(id.0);
                    Error::damaged(format!("{what}, which {snapshot} needs,"), detail)
                }
                other => other,
            })?;
            done.push((id, snapshot));
            if saver.totals().stored >= enough {
                break;
            }
        }
        let totals = Arc::into_inner(saver).ok_or(Error::Cancelled)?.finish().await?;
        outcome.blobs += totals.data_blobs + totals.tree_blobs;
        outcome.added += totals.added;
        outcome.stored += totals.stored;
        self.lock.verify().await?;
        for (source, mut snapshot) in done {
            // The parent is a snapshot of the source repository.
            snapshot.parent = None;
            snapshot.original.get_or_insert(source);
            let target = self.target.save_snapshot(&snapshot).await?;
            outcome.copied.push(Copied { source, target });
        }
        Ok(())
    }

    /// The blobs below a tree that the target lacks.
    async fn find_wanted(
        &self,
        reader: &BlobReader,
        visited: &EntrySet,
        saver: &Arc<Saver>,
        root: (SnapshotId, BlobId),
    ) -> Result<Arc<EntrySet>> {
        self.progress.begin("reading trees");
        let wanted = Arc::new(EntrySet::new(reader.index().len()));
        let (marks, index, target) = (Arc::clone(&wanted), Arc::clone(reader.index()), Arc::clone(saver));
        let work = Arc::new(move |visit: &mut Visit| want(&index, &target, &marks, visit));
        visit_trees(reader, [Root::from(root)], visited, work, self.progress, self.cancel).await?;
        Ok(wanted)
    }
}

fn want(index: &Index, target: &Saver, wanted: &EntrySet, visit: &mut Visit) -> Result<()> {
    let name = visit.describe();
    let want = |kind, id: &BlobId| {
        if !target.has(kind, id)? {
            let copies = index.find_all(kind, id)?;
            let first = copies.first().ok_or(Error::MissingBlob { kind, id: *id })?;
            wanted.insert(first.number);
        }
        Ok(())
    };
    while let Some(node) = visit.next_node().map_err(|error| unreadable(&name, error))? {
        node.blobs().iter().try_for_each(|blob| want(BlobKind::Data, blob))?;
    }
    want(BlobKind::Tree, &visit.tree)
}

/// Whether one is a copy of the other: everything except parent and original is equal (restic's rule).
fn are_similar(one: &Snapshot, other: &Snapshot) -> bool {
    let same_words = |one: &[String], other: &[String]| {
        one.len() == other.len() && other.iter().all(|word| one.contains(word))
    };
    one.time.timestamp() == other.time.timestamp()
        && one.tree == other.tree
        && (&one.hostname, &one.username, one.uid, one.gid)
            == (&other.hostname, &other.username, other.uid, other.gid)
        && one.excludes == other.excludes
        && same_words(&one.paths, &other.paths)
        && same_words(&one.tags, &other.tags)
}

#[cfg(test)]
mod tests;
