//! A directory in progress: its entries are completed in any order, on any thread; the last one turns it into a tree
//! and completes its entry in the parent directory, and so on up to the root.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::context::Context;
use crate::error::Result;
use crate::id::{BlobId, BlobKind};
use crate::node::{Node, TreeBuilder};

/// The entry in the parent directory that is filled in when the directory is complete.
struct ParentEntry {
    directory: Arc<Directory>,
    position: usize,
    /// The directory's own node, which only lacks the subtree.
    node: Box<Node>,
    /// The tree that the parent snapshot has at this path.
    previous: Option<BlobId>,
}

/// A directory whose entries are still being completed.
pub(super) struct Directory {
    above: Mutex<Option<ParentEntry>>,
    entries: Mutex<Entries>,
}

struct Entries {
    builder: TreeBuilder,
    /// The position of the next entry for the builder.
    next: usize,
    /// Complete entries that wait for earlier ones; `None` for an entry that is left out.
    waiting: BTreeMap<usize, Option<Box<Node>>>,
    /// Known when the walker has passed all entries.
    total: Option<usize>,
}

impl Directory {
    /// The outermost directory, whose tree is that of the snapshot.
    pub(super) fn root() -> Arc<Self> {
        Arc::new(Self { above: Mutex::new(None), entries: Mutex::new(Entries::new()) })
    }

    /// A directory that becomes the entry `position` of `directory`.
    pub(super) fn below(
        directory: Arc<Self>,
        position: usize,
        node: Node,
        previous: Option<BlobId>,
    ) -> Arc<Self> {
        let above = ParentEntry { directory, position, node: Box::new(node), previous };
        Arc::new(Self { above: Mutex::new(Some(above)), entries: Mutex::new(Entries::new()) })
    }

    /// Completes entry `position`; `None` if it is not in the snapshot.
    pub(super) fn fill(&self, context: &Context, position: usize, node: Option<Node>) -> Result<()> {
        self.settle(context, |entries| entries.fill(position, node))
    }

    /// Sets the number of entries.
    pub(super) fn close(&self, context: &Context, total: usize) -> Result<()> {
        self.settle(context, |entries| {
            entries.total = Some(total);
            Ok(())
        })
    }

    /// Continues upwards as long as directories become complete; a loop, because trees may be deeper than a stack.
    fn settle(&self, context: &Context, change: impl FnOnce(&mut Entries) -> Result<()>) -> Result<()> {
        let Some(json) = self.change(change)? else { return Ok(()) };
        let mut subtree = context.save(BlobKind::Tree, &json)?;
        let mut above = self.take_above();
        drop(json);
        while let Some(ParentEntry { directory, position, mut node, previous }) = above {
            count(context, previous, subtree);
            node.subtree = Some(subtree);
            let Some(json) = directory.change(|entries| entries.fill(position, Some(*node)))? else {
                return Ok(());
            };
            subtree = context.save(BlobKind::Tree, &json)?;
            above = directory.take_above();
        }
        // Set once: only the root has no parent.
        let _ = context.root.set(subtree);
        Ok(())
    }

    fn take_above(&self) -> Option<ParentEntry> {
        self.above.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Changes the entries; returns the tree if they are now complete.
    fn change(&self, change: impl FnOnce(&mut Entries) -> Result<()>) -> Result<Option<Vec<u8>>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut entries)?;
        let complete = entries.total == Some(entries.next);
        Ok(complete.then(|| std::mem::take(&mut entries.builder).finish()))
    }
}

fn count(context: &Context, previous: Option<BlobId>, now: BlobId) {
    let counts = &mut context.findings().counts;
    match previous {
        None => counts.dirs_new += 1,
        Some(previous) if previous == now => counts.dirs_unmodified += 1,
        Some(_) => counts.dirs_changed += 1,
    }
}

impl Entries {
    fn new() -> Self {
        Self { builder: TreeBuilder::default(), next: 0, waiting: BTreeMap::new(), total: None }
    }

    fn fill(&mut self, position: usize, node: Option<Node>) -> Result<()> {
        if position != self.next {
            self.waiting.insert(position, node.map(Box::new));
            return Ok(());
        }
        self.add(node.as_ref())?;
        while let Some(node) = self.waiting.remove(&self.next) {
            self.add(node.as_deref())?;
        }
        Ok(())
    }

    fn add(&mut self, node: Option<&Node>) -> Result<()> {
        self.next += 1;
        node.map_or(Ok(()), |node| self.builder.add(node))
    }
}
