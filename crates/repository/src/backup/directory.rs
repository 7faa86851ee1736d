//! A directory in progress: its entries are completed in any order, on any thread; the last one turns it into a tree
//! and completes its entry in the parent directory, and so on up to the root.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::context::Context;
use crate::error::Result;
use crate::id::{BlobId, BlobKind};
use crate::node::{Node, TreeBuilder};
use crate::saver::LargeTree;

/// The entry in the parent directory that is filled in when the directory is complete.
struct ParentEntry {
    directory: Arc<Directory>,
    position: usize,
    /// The directory's own node, which only lacks the subtree.
    node: Box<Node>,
    /// The tree that the parent snapshot has at this path.
    previous: Option<BlobId>,
}

/// How much JSON of a tree is kept before it is compressed as it grows. Not less, because then a directory that did not
/// change is compressed, too: usual ones are hashed only.
pub(super) const LARGE_TREE: usize = 32 << 20;
/// The most complete entries of a directory that wait for an earlier one: about 10 MiB.
const MOST_WAITING: usize = 16 * 1024;
/// How long a waiting walker takes to notice that the backup was cancelled.
const CANCELLED_WITHIN: Duration = Duration::from_millis(200);
/// How much is compressed at a time.
const PART: usize = 1 << 20;

/// A complete tree.
struct Tree {
    /// Its first part, if it is very large.
    large: Option<LargeTree>,
    /// The rest.
    json: Vec<u8>,
}

impl Tree {
    fn save(self, context: &Context) -> Result<BlobId> {
        let Some(mut large) = self.large else { return context.save(BlobKind::Tree, &self.json) };
        large.push(&self.json)?;
        context.save_large_tree(large)
    }
}

/// A directory whose entries are still being completed.
pub(super) struct Directory {
    above: Mutex<Option<ParentEntry>>,
    entries: Mutex<Entries>,
    /// Notified when entries that waited were added to the tree.
    fewer_wait: Condvar,
}

struct Entries {
    builder: TreeBuilder,
    /// The first part of a very large tree.
    large: Option<LargeTree>,
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
        Arc::new(Self::new(None))
    }

    /// A directory that becomes the entry `position` of `directory`.
    pub(super) fn below(
        directory: Arc<Self>,
        position: usize,
        node: Node,
        previous: Option<BlobId>,
    ) -> Arc<Self> {
        let above = ParentEntry { directory, position, node: Box::new(node), previous };
        Arc::new(Self::new(Some(above)))
    }

    fn new(above: Option<ParentEntry>) -> Self {
        let (above, entries) = (Mutex::new(above), Mutex::new(Entries::new()));
        Self { above, entries, fewer_wait: Condvar::new() }
    }

    /// Called by the walker before it adds an entry: waits while very many entries are complete and wait for an earlier
    /// one, such as a large file. The walker has left every directory that they can wait for.
    pub(super) fn wait_for_earlier_entries(&self, context: &Context) -> Result<()> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        while entries.waiting.len() >= MOST_WAITING {
            context.check_running()?;
            let waited = self.fewer_wait.wait_timeout(entries, CANCELLED_WITHIN);
            entries = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// Completes entry `position`; `None` if it is not in the snapshot.
    pub(super) fn fill(&self, context: &Context, position: usize, node: Option<Node>) -> Result<()> {
        self.settle(context, |entries| entries.fill(context, position, node))
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
        let Some(tree) = self.change(change)? else { return Ok(()) };
        let mut subtree = tree.save(context)?;
        let mut above = self.take_above();
        while let Some(ParentEntry { directory, position, mut node, previous }) = above {
            count(context, previous, subtree);
            node.subtree = Some(subtree);
            let Some(tree) = directory.change(|entries| entries.fill(context, position, Some(*node)))? else {
                return Ok(());
            };
            subtree = tree.save(context)?;
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
    fn change(&self, change: impl FnOnce(&mut Entries) -> Result<()>) -> Result<Option<Tree>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = entries.waiting.len();
        change(&mut entries)?;
        if entries.waiting.len() < waited {
            self.fewer_wait.notify_all();
        }
        let complete = entries.total == Some(entries.next);
        Ok(complete.then(|| Tree {
            large: entries.large.take(),
            json: std::mem::take(&mut entries.builder).finish(),
        }))
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
        Self { builder: TreeBuilder::default(), large: None, next: 0, waiting: BTreeMap::new(), total: None }
    }

    fn fill(&mut self, context: &Context, position: usize, node: Option<Node>) -> Result<()> {
        if position != self.next {
            self.waiting.insert(position, node.map(Box::new));
            return Ok(());
        }
        self.add(context, node.as_ref())?;
        while let Some(node) = self.waiting.remove(&self.next) {
            self.add(context, node.as_deref())?;
        }
        Ok(())
    }

    fn add(&mut self, context: &Context, node: Option<&Node>) -> Result<()> {
        self.next += 1;
        let Some(node) = node else { return Ok(()) };
        self.builder.add(node)?;
        let most = if self.large.is_some() { PART } else { context.large_tree };
        if self.builder.written().len() < most {
            return Ok(());
        }
        if self.large.is_none() {
            self.large = context.saver.begin_large_tree()?;
        }
        let Some(large) = &mut self.large else { return Ok(()) };
        large.push(self.builder.written().as_bytes())?;
        self.builder.forget_written();
        Ok(())
    }
}
