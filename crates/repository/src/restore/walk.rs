//! Walks the trees of a snapshot, depth first, without recursion and without trusting them: names that are not a
//! single path component, duplicate names and paths that are too long are reported as problems and never written. The
//! next trees are loaded in advance, for remote stores; large ones are streamed.

mod names;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use tokio::task::JoinHandle;

use super::Selection;
use super::directory::DirRef;
use super::shared::Shared;
use super::target::LONGEST_PATH;
use crate::blobs::nodes::Nodes;
use crate::error::{Error, Result};
use crate::id::{BlobId, BlobKind};
use crate::node::{Node, NodeKind, parse_tree};
pub(super) use names::TreeNames;

/// How many trees are loaded in advance, of at most this size each.
const AHEAD: usize = 16;
const LARGEST_AHEAD: u32 = 512 * 1024;

/// Gets the entries that the walk finds. Errors stop the walk.
pub(super) trait Visitor {
    /// Called when the walk enters a directory. False if it could not be created and must be left out.
    fn enter(&mut self, directory: &DirRef, selected: bool) -> Result<bool>;
    /// Called for a selected entry that is not a directory.
    fn entry(&mut self, directory: &DirRef, node: Node) -> Result<()>;
    /// Called after all entries of a directory, with all their names, selected or not.
    fn listed(&mut self, directory: &DirRef, names: &TreeNames<'_>) -> Result<()>;
}

/// A directory that is still to be walked.
struct Pending {
    directory: DirRef,
    tree: Option<BlobId>,
    selection: Selection,
    loading: Option<JoinHandle<Result<Bytes>>>,
}

impl Drop for Pending {
    /// A walk that ends early cancels its tasks.
    fn drop(&mut self) {
        if let Some(loading) = self.loading.take() {
            loading.abort();
        }
    }
}

/// Walks everything below `tree`, which is restored as the target itself.
pub(super) fn walk(shared: &Arc<Shared>, tree: BlobId, visitor: &mut dyn Visitor) -> Result<()> {
    let root =
        DirRef::root(shared).map_err(super::compare::system("read the metadata of the target", b"."))?;
    let selection = Selection { include: false, descend: true };
    let mut stack = vec![Pending { directory: root, tree: Some(tree), selection, loading: None }];
    let mut ahead = Ahead { shared, loading: 0 };
    while let Some(mut pending) = stack.pop() {
        shared.check_running()?;
        let is_root = pending.directory.node().is_none();
        shared.progress.set_current(&String::from_utf8_lossy(&pending.directory.location(None)));
        if !is_root && !visitor.enter(&pending.directory, pending.selection.include)? {
            ahead.forget(pending.loading.take());
            continue;
        }
        if !pending.selection.descend {
            continue;
        }
        let Some(tree) = pending.tree else {
            shared.problem(&pending.directory.location(None), "the directory has no tree");
            continue;
        };
        let is_large = shared.reader.is_large(&tree)?;
        let loaded = if is_large {
            nodes_of(shared, tree).map(Content::Nodes)
        } else {
            ahead.load(tree, pending.loading.take()).map(Content::Json)
        };
        let content = match loaded {
            Ok(content) => content,
            Err(error) if Shared::is_local(&error) => {
                shared.problem(&pending.directory.location(None), error);
                continue;
            }
            Err(error) => return Err(error),
        };
        let first = stack.len();
        let mut names = TreeNames::new(shared, tree, is_large);
        list(shared, &pending.directory, content, &mut names, visitor, &mut stack)?;
        // The last one pushed is walked first.
        stack[first..].reverse();
        ahead.start(&mut stack);
    }
    Ok(())
}

/// What a tree contains.
enum Content {
    Json(Bytes),
    /// Of a large directory.
    Nodes(Nodes),
}

impl Content {
    fn for_each(self, each: &mut dyn FnMut(Node) -> Result<()>) -> Result<()> {
        match self {
            Self::Json(json) => parse_tree(&json, each),
            Self::Nodes(mut nodes) => {
                while let Some(node) = nodes.next()? {
                    each(node)?;
                }
                Ok(())
            }
        }
    }
}

fn nodes_of(shared: &Shared, tree: BlobId) -> Result<Nodes> {
    shared.runtime.block_on(async {
        tokio::select! {
            nodes = shared.reader.nodes_as_stored(&tree) => nodes,
            () = shared.cancel.cancelled() => Err(Error::Cancelled),
        }
    })
}

/// Walks one directory.
fn list(
    shared: &Arc<Shared>,
    directory: &DirRef,
    content: Content,
    names: &mut TreeNames<'_>,
    visitor: &mut dyn Visitor,
    stack: &mut Vec<Pending>,
) -> Result<()> {
    let mut stopped = None;
    // Without a filter and deletion, an entry's path is only needed if something fails.
    let filtered = shared.options.select.is_some();
    let parsed = content.for_each(&mut |node| {
        if let Err(error) = one(shared, directory, node, filtered, names, visitor, stack) {
            stopped = Some(error);
            return Err(Error::Cancelled);
        }
        Ok(())
    });
    if let Some(error) = stopped {
        return Err(error);
    }
    match parsed {
        Ok(()) => visitor.listed(directory, names),
        Err(error) => {
            // Entries that were not read must not be taken for deleted.
            shared.problem(&directory.location(None), error);
            Ok(())
        }
    }
}

fn one(
    shared: &Arc<Shared>,
    directory: &DirRef,
    node: Node,
    filtered: bool,
    names: &mut TreeNames<'_>,
    visitor: &mut dyn Visitor,
    stack: &mut Vec<Pending>,
) -> Result<()> {
    shared.check_running()?;
    let problem = if !node.has_safe_name() {
        Some("the name of the entry is not a file name, so it was not restored")
    } else if !names.insert(&node.name)? {
        Some("the directory has two entries of this name, only the first was restored")
    } else if directory.path_length() + 1 + node.name.len() > LONGEST_PATH {
        Some("its path is too long, so it was not restored")
    } else {
        None
    };
    if let Some(problem) = problem {
        shared.no_deletion.store(true, Ordering::Relaxed);
        shared.problem(&directory.location(Some(&node.name)), problem);
        return Ok(());
    }
    if node.kind == NodeKind::Socket {
        return Ok(());
    }
    let selection = if filtered {
        shared.select(&directory.location(Some(&node.name)), node.is_directory())
    } else {
        Selection::ALL
    };
    if !node.is_directory() {
        return if selection.include { visitor.entry(directory, node) } else { Ok(()) };
    }
    if selection.include || selection.descend {
        let tree = node.subtree;
        stack.push(Pending { directory: directory.child(node), tree, selection, loading: None });
    }
    Ok(())
}

/// Loads trees before they are needed.
struct Ahead<'a> {
    shared: &'a Arc<Shared>,
    loading: usize,
}

impl Ahead<'_> {
    /// Starts loading the trees at the top of the stack.
    fn start(&mut self, stack: &mut [Pending]) {
        for pending in stack.iter_mut().rev().take(AHEAD) {
            if self.loading >= AHEAD {
                return;
            }
            let Some(tree) = pending.tree else { continue };
            if pending.loading.is_some() || !pending.selection.descend || !self.is_small(&tree) {
                continue;
            }
            let reader = self.shared.reader.clone();
            let loading = async move { reader.load(BlobKind::Tree, &tree).await };
            pending.loading = Some(self.shared.runtime.spawn(loading));
            self.loading += 1;
        }
    }

    fn is_small(&self, tree: &BlobId) -> bool {
        let found = self.shared.reader.index().find(BlobKind::Tree, tree);
        matches!(found, Ok(Some(location)) if location.plain_length() <= LARGEST_AHEAD)
    }

    fn load(&mut self, tree: BlobId, loading: Option<JoinHandle<Result<Bytes>>>) -> Result<Bytes> {
        let reader = &self.shared.reader;
        let cancel = &self.shared.cancel;
        self.loading -= usize::from(loading.is_some());
        self.shared.runtime.block_on(async {
            let loaded = async {
                if let Some(loading) = loading
                    && let Ok(loaded) = loading.await
                {
                    return loaded;
                }
                reader.load(BlobKind::Tree, &tree).await
            };
            tokio::select! {
                loaded = loaded => loaded,
                () = cancel.cancelled() => Err(Error::Cancelled),
            }
        })
    }

    fn forget(&mut self, loading: Option<JoinHandle<Result<Bytes>>>) {
        if let Some(loading) = loading {
            loading.abort();
            self.loading -= 1;
        }
    }
}
