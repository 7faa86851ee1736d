//! Walks over trees. `visit_trees` visits every tree below some roots once, many at a time and in no particular
//! order: for used blobs, check, copy and statistics. `Walk` traverses one snapshot in path order: for listings,
//! searches and comparisons.

pub(crate) mod by_pack;
mod entries;
mod paths;

pub use entries::EntrySet;
pub(crate) use paths::join;
pub use paths::{Step, Walk};

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::blobs::BlobReader;
use crate::blobs::nodes::Nodes;
use crate::error::{Error, Result};
use crate::id::{BlobId, BlobKind, SnapshotId};
use crate::node::Node;
use crate::progress::Progress;

/// How many trees are processed concurrently.
const IN_FLIGHT: usize = 16;

/// A tree to start at, and its snapshot, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Root {
    pub snapshot: Option<SnapshotId>,
    pub tree: BlobId,
}

impl From<BlobId> for Root {
    fn from(tree: BlobId) -> Self {
        Self { snapshot: None, tree }
    }
}

impl From<(SnapshotId, BlobId)> for Root {
    fn from((snapshot, tree): (SnapshotId, BlobId)) -> Self {
        Self { snapshot: Some(snapshot), tree }
    }
}

/// A tree that is visited. Its nodes are taken one at a time, because a directory may have millions.
#[derive(Debug)]
pub struct Visit {
    /// The first root from which it was reached.
    pub root: Root,
    pub tree: BlobId,
    nodes: Result<Nodes>,
    /// The trees of the directories so far.
    subtrees: Vec<BlobId>,
    cancel: CancellationToken,
}

impl Visit {
    /// The next node. An error says why the tree, or the rest of it, cannot be read; after that there are no more nodes.
    pub fn next_node(&mut self) -> Result<Option<Node>> {
        if self.cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let mut nodes = std::mem::replace(&mut self.nodes, Ok(Nodes::none()))?;
        let node = nodes.next()?;
        self.nodes = Ok(nodes);
        self.subtrees.extend(node.as_ref().filter(|node| node.is_directory()).and_then(|node| node.subtree));
        Ok(node)
    }

    /// The tree's name in messages: `tree 1a2b3c4d of snapshot 5e6f7a8b`.
    pub fn describe(&self) -> String {
        describe(&self.tree, &self.root)
    }
}

pub(crate) fn describe(tree: &BlobId, root: &Root) -> String {
    match root.snapshot {
        Some(snapshot) => format!("tree {} of snapshot {}", tree.short(), snapshot.short()),
        None => format!("tree {}", tree.short()),
    }
}

/// Passes every tree below `roots` to `work` once. `visited` records which trees were visited, by their entries in
/// the index; `work` is called from several tasks concurrently and stops the walk by returning an error. A tree that
/// cannot be read is passed, too: its first node is the error. Only one large tree is in memory at a time.
pub async fn visit_trees<W>(
    reader: &BlobReader,
    roots: impl IntoIterator<Item = Root>,
    visited: &EntrySet,
    work: Arc<W>,
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<()>
where
    W: Fn(&mut Visit) -> Result<()> + Send + Sync + 'static,
{
    // Depth first, so that the queue holds a few directories and not a whole level of the snapshot.
    let mut waiting: Vec<(Root, BlobId)> = roots.into_iter().map(|root| (root, root.tree)).collect();
    progress.add_total(waiting.len() as u64, 0);
    waiting.reverse();
    let mut absent = HashSet::new();
    let mut running = JoinSet::new();
    loop {
        while running.len() < IN_FLIGHT
            && let Some((root, tree)) = waiting.pop()
        {
            let entries = reader.index().find_all(BlobKind::Tree, &tree)?;
            let first = if entries.is_empty() { absent.insert(tree) } else { visited.insert_all(&entries) };
            if first {
                running.spawn(visit(reader.clone(), root, tree, Arc::clone(&work), cancel.clone()));
            } else {
                progress.add_done(1, 0);
            }
        }
        let finished = tokio::select! {
            finished = running.join_next() => finished,
            () = cancel.cancelled() => return Err(Error::Cancelled),
        };
        let Some(finished) = finished else { return Ok(()) };
        let (root, subtrees) = finished.unwrap_or(Err(Error::Cancelled))?;
        progress.add_total(subtrees.len() as u64, 0);
        progress.add_done(1, 0);
        waiting.extend(subtrees.into_iter().rev().map(|tree| (root, tree)));
    }
}

async fn visit<W>(
    reader: BlobReader,
    root: Root,
    tree: BlobId,
    work: Arc<W>,
    cancel: CancellationToken,
) -> Result<(Root, Vec<BlobId>)>
where
    W: Fn(&mut Visit) -> Result<()> + Send + Sync + 'static,
{
    let is_large = reader.is_large(&tree)?;
    let alone = if is_large { Some(reader.one_large_tree().await?) } else { None };
    let nodes = reader.nodes_as_stored(&tree).await;
    let mut visit = Visit { root, tree, nodes, subtrees: Vec::new(), cancel };
    let run = move || {
        work(&mut visit)?;
        // For the subtrees of nodes that were not taken.
        while let Ok(Some(_)) = visit.next_node() {}
        drop(alone);
        Ok((root, visit.subtrees))
    };
    if is_large { tokio::task::spawn_blocking(run).await.unwrap_or(Err(Error::Cancelled)) } else { run() }
}

/// The tree of the directory at `path` below `root`.
pub async fn find_directory(reader: &BlobReader, root: BlobId, path: impl AsRef<Path>) -> Result<BlobId> {
    let mut tree = root;
    let mut walked = PathBuf::from("/");
    for component in path.as_ref().components() {
        let name = match component {
            Component::Normal(name) => name,
            Component::RootDir | Component::CurDir => continue,
            Component::ParentDir | Component::Prefix(_) => {
                return Err(Error::invalid("subfolder", "it must not contain '..'"));
            }
        };
        walked.push(name);
        let walked = walked.display();
        tree = match find_node(reader, tree, name.as_bytes()).await? {
            None => return Err(Error::NothingFound { what: format!("the snapshot has no '{walked}'") }),
            Some(node) if node.is_directory() => {
                let treeless = || Error::damaged(format!("directory '{walked}'"), "it has no tree");
                node.subtree.ok_or_else(treeless)?
            }
            Some(_) => {
                let problem = format!("'{walked}' is not a directory in the snapshot");
                return Err(Error::invalid("subfolder", problem));
            }
        };
    }
    Ok(tree)
}

/// The only file of a snapshot of a device or of a command's output, with the directories that lead to it.
pub async fn single_file(reader: &BlobReader, root: BlobId) -> Result<(PathBuf, Node)> {
    const DEEPEST: usize = 64;
    let mut path = PathBuf::from("/");
    let mut tree = root;
    for _ in 0..DEEPEST {
        let mut nodes = reader.load_tree(&tree).await?.into_iter();
        let (Some(node), None) = (nodes.next(), nodes.next()) else { break };
        path.push(std::ffi::OsStr::from_bytes(&node.name));
        match node.subtree {
            _ if node.is_file() => return Ok((path, node)),
            Some(subtree) => tree = subtree,
            None => break,
        }
    }
    Err(Error::invalid(
        "snapshot",
        "it does not contain exactly one file, as a snapshot of a device or of a command does",
    ))
}

/// The entry `name` of a directory.
pub async fn find_node(reader: &BlobReader, tree: BlobId, name: &[u8]) -> Result<Option<Node>> {
    let mut nodes = reader.nodes_as_stored(&tree).await?;
    while let Some(node) = nodes.next()? {
        if node.name == name {
            return Ok(Some(node));
        }
    }
    Ok(None)
}
