//! Searches snapshots for names that match patterns, or for the files and directories to which a blob, a tree or a
//! pack belongs. Hits are returned one at a time, snapshot by snapshot.

mod hits;
mod objects;

pub use hits::{FoundNode, FoundObject, Hit};

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::blobs::BlobReader;
use crate::error::{Error, Result};
use crate::id::SnapshotId;
use crate::lock::{LockKind, LockOptions};
use crate::locked::locked;
use crate::node::{Node, NodeTime};
use crate::progress::Progress;
use crate::repository::Repository;
use crate::source::patterns::Patterns;
use crate::walk::{Step, Walk};
use objects::Objects;

/// What to search for.
#[derive(Debug, Clone)]
pub enum Wanted {
    Names {
        patterns: Patterns,
        oldest: Option<NodeTime>,
        newest: Option<NodeTime>,
    },
    /// IDs of blobs, or prefixes of IDs.
    Blobs(Vec<String>),
    Trees(Vec<String>),
    /// Everything in these packs.
    Packs(Vec<String>),
}

/// Searches these snapshots in the given order, under a shared lock or without a lock. Trees that cannot be read are
/// reported as hits of their own, and the search continues.
pub async fn find(
    repository: &Repository,
    snapshots: &[SnapshotId],
    wanted: &Wanted,
    lock: Option<&LockOptions>,
    each: &mut (dyn FnMut(Hit) -> Result<()> + Send),
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<()> {
    locked(repository, LockKind::Shared, lock, async |_| {
        let reader = BlobReader::new(repository, Arc::new(repository.load_index().await?));
        let objects = Objects::new(&reader, wanted).await?;
        progress.add_total(snapshots.len() as u64, 0);
        progress.total_is_known();
        for id in snapshots {
            let snapshot = repository.load_snapshot(*id).await?;
            let mut search = Search { id: *id, reader: &reader, cancel, each: &mut *each };
            match (wanted, &objects) {
                (Wanted::Names { patterns, oldest, newest }, _) => {
                    search.names(&snapshot.tree, patterns, *oldest, *newest).await?;
                }
                (_, objects) => objects.search(&mut search, &snapshot).await?,
            }
            progress.add_done(1, 0);
        }
        Ok(())
    })
    .await
}

/// The search through one snapshot.
struct Search<'a> {
    id: SnapshotId,
    reader: &'a BlobReader,
    cancel: &'a CancellationToken,
    each: &'a mut (dyn FnMut(Hit) -> Result<()> + Send),
}

impl Search<'_> {
    async fn names(
        &mut self,
        tree: &crate::id::BlobId,
        patterns: &Patterns,
        oldest: Option<NodeTime>,
        newest: Option<NodeTime>,
    ) -> Result<()> {
        let mut walk = match Walk::start(self.reader, b"/", tree, self.cancel).await {
            Ok(walk) => walk,
            Err(error) => return self.unreadable(*tree, error),
        };
        let in_time = |node: &Node| {
            oldest.is_none_or(|oldest| node.mtime >= oldest)
                && newest.is_none_or(|newest| node.mtime <= newest)
        };
        while let Some(step) = walk.step().await? {
            match step {
                Step::Enter { path, node } => {
                    let found = patterns.matches_or_below(&path);
                    let hit = found.matched && in_time(&node);
                    if !hit && !found.below && node.is_directory() {
                        walk.skip();
                    }
                    if hit {
                        (self.each)(Hit::Node { snapshot: self.id, path, node: Box::new(node) })?;
                    }
                }
                Step::Leave { .. } => {}
                Step::Unreadable { tree, error, .. } => self.unreadable(tree, error)?,
            }
        }
        Ok(())
    }

    fn unreadable(&mut self, tree: crate::id::BlobId, error: Error) -> Result<()> {
        if matches!(error, Error::Cancelled) {
            return Err(error);
        }
        (self.each)(Hit::Unreadable { snapshot: self.id, tree, message: error.to_string() })
    }
}

#[cfg(test)]
mod tests;
