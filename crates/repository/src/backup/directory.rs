//! A directory in the making: its entries become complete in any order, on any thread; the last one makes it a
//! tree and completes its entry in the directory above, and so on up to the root.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::context::Context;
use crate::error::Result;
use crate::id::{BlobId, BlobKind};
use crate::node::{Node, TreeBuilder};

/// Where a directory is entered once it is complete.
struct Above {
    directory: Arc<Directory>,
    position: usize,
    /// The directory's own node, which lacks the subtree only.
    node: Box<Node>,
    /// What the parent snapshot has in this place.
    previous: Option<BlobId>,
}

/// See above.
pub(super) struct Directory {
    above: Mutex<Option<Above>>,
    entries: Mutex<Entries>,
}

struct Entries {
    builder: TreeBuilder,
    /// The position that goes into the builder next.
    next: usize,
    /// Complete entries that wait for others before them; `None` is left out.
    waiting: BTreeMap<usize, Option<Box<Node>>>,
    /// Known when the walker has seen them all.
    total: Option<usize>,
}

impl Directory {
    /// The outermost directory, whose tree is that of the snapshot.
    pub(super) fn root() -> Arc<Self> {
        Arc::new(Self { above: Mutex::new(None), entries: Mutex::new(Entries::new()) })
    }

    /// One that becomes the entry `position` of `directory`.
    pub(super) fn below(
        directory: Arc<Self>,
        position: usize,
        node: Node,
        previous: Option<BlobId>,
    ) -> Arc<Self> {
        let above = Above { directory, position, node: Box::new(node), previous };
        Arc::new(Self { above: Mutex::new(Some(above)), entries: Mutex::new(Entries::new()) })
    }

    /// Entry `position` is complete; `None` if it is not in the snapshot.
    pub(super) fn fill(&self, context: &Context, position: usize, node: Option<Node>) -> Result<()> {
        self.settle(context, |entries| entries.fill(position, node))
    }

    /// There will be `total` entries.
    pub(super) fn close(&self, context: &Context, total: usize) -> Result<()> {
        self.settle(context, |entries| {
            entries.total = Some(total);
            Ok(())
        })
    }

    /// Climbs as long as directories become complete; a loop, because trees may be deeper than a stack.
    fn settle(&self, context: &Context, change: impl FnOnce(&mut Entries) -> Result<()>) -> Result<()> {
        let Some(json) = self.change(change)? else { return Ok(()) };
        let mut subtree = context.save(BlobKind::Tree, &json)?;
        let mut above = self.take_above();
        drop(json);
        while let Some(Above { directory, position, mut node, previous }) = above {
            count(context, previous, subtree);
            node.subtree = Some(subtree);
            let Some(json) = directory.change(|entries| entries.fill(position, Some(*node)))? else {
                return Ok(());
            };
            subtree = context.save(BlobKind::Tree, &json)?;
            above = directory.take_above();
        }
        // Set once: only the root has nothing above it.
        let _ = context.root.set(subtree);
        Ok(())
    }

    fn take_above(&self) -> Option<Above> {
        self.above.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Changes the entries; gives the tree if that made them complete.
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
