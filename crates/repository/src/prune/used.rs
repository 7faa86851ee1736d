//! Finds the blobs that snapshots use: visits all trees, each once, several concurrently. Takes the roots and the
//! index; returns one bit per entry of the index. Memory: the bits, the trees in flight (one large one, compressed), and
//! the IDs of those still to visit.

use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use futures::stream::FuturesUnordered;

use crate::blobs::BlobReader;
use crate::error::{Error, Result};
use crate::id::{BlobId, BlobKind};
use crate::index::Index;
use crate::node::{self, Node};
use crate::progress::Progress;
use crate::repository::Repository;
use crate::walk::EntrySet;

/// How many missing blobs are recorded; the prune is refused because of the first.
const NAMED_MISSING: usize = 1000;

/// The blobs that snapshots use.
#[derive(Debug)]
pub(crate) struct Used {
    /// The first entry of each used blob.
    pub(crate) entries: EntrySet,
    /// Blobs that are used and not in the index; the first thousand.
    pub(crate) missing: Vec<(BlobKind, BlobId)>,
}

/// Walks the trees. A tree that exists but cannot be read fails the whole operation: blobs that it names might be
/// pruned.
pub(crate) async fn find(
    repository: &Repository,
    index: &Arc<Index>,
    roots: &[BlobId],
    progress: &Progress,
) -> Result<Used> {
    let walk = Arc::new(Walk {
        reader: BlobReader::new(repository, Arc::clone(index)),
        entries: EntrySet::new(index.len()),
        missing: Mutex::default(),
    });
    let at_once = repository.reads();
    let mut waiting: Vec<BlobId> = Vec::new();
    for root in roots {
        if walk.note(BlobKind::Tree, root)? {
            waiting.push(*root);
        }
    }
    progress.add_total(waiting.len() as u64, 0);
    let mut visiting = FuturesUnordered::new();
    loop {
        // The last one found is visited next: depth first keeps the list short, and adjacent trees are in the same
        // pack.
        while visiting.len() < at_once
            && let Some(tree) = waiting.pop()
        {
            let walk = Arc::clone(&walk);
            visiting.push(tokio::spawn(walk.visit(tree)));
        }
        let Some(visited) = visiting.next().await else { break };
        let mut found = visited.unwrap_or(Err(Error::Cancelled))?;
        progress.add_done(1, 0);
        progress.add_total(found.len() as u64, 0);
        found.reverse();
        waiting.append(&mut found);
    }
    drop(visiting);
    // Every task has ended, so this is the last reference.
    let walk = Arc::into_inner(walk).ok_or(Error::Cancelled)?;
    Ok(Used {
        entries: walk.entries,
        missing: walk.missing.into_inner().unwrap_or_else(PoisonError::into_inner),
    })
}

struct Walk {
    reader: BlobReader,
    entries: EntrySet,
    missing: Mutex<Vec<(BlobKind, BlobId)>>,
}

impl Walk {
    /// Marks a blob as used. True if it was not marked before and exists.
    fn note(&self, kind: BlobKind, id: &BlobId) -> Result<bool> {
        if let Some(entry) = self.reader.index().find_all(kind, id)?.first() {
            return Ok(self.entries.insert(entry.number));
        }
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        if missing.len() < NAMED_MISSING && !missing.contains(&(kind, *id)) {
            missing.push((kind, *id));
        }
        Ok(false)
    }

    /// Marks all blobs that a tree names; returns the subtrees that were not visited yet.
    async fn visit(self: Arc<Self>, tree: BlobId) -> Result<Vec<BlobId>> {
        if self.reader.is_large(&tree)? {
            return self.visit_large(tree).await;
        }
        let json = self.reader.load(BlobKind::Tree, &tree).await?;
        let mut subtrees = Vec::new();
        let parsed = node::parse_tree(&json, &mut |node| self.mark(&node, &mut subtrees));
        parsed.map_err(|error| match error {
            Error::Damaged { detail, .. } => Error::damaged(format!("tree {}", tree.short()), detail),
            other => other,
        })?;
        Ok(subtrees)
    }

    async fn visit_large(self: Arc<Self>, tree: BlobId) -> Result<Vec<BlobId>> {
        let alone = self.reader.one_large_tree().await?;
        let mut nodes = self.reader.nodes_as_stored(&tree).await?;
        let marking = tokio::task::spawn_blocking(move || {
            let _alone = alone;
            let mut subtrees = Vec::new();
            while let Some(node) = nodes.next()? {
                self.mark(&node, &mut subtrees)?;
            }
            Ok(subtrees)
        });
        marking.await.unwrap_or(Err(Error::Cancelled))
    }

    /// For every kind of node: whatever it names is kept.
    fn mark(&self, node: &Node, subtrees: &mut Vec<BlobId>) -> Result<()> {
        for blob in node.blobs() {
            self.note(BlobKind::Data, blob)?;
        }
        if let Some(subtree) = &node.subtree
            && self.note(BlobKind::Tree, subtree)?
        {
            subtrees.push(*subtree);
        }
        Ok(())
    }
}
