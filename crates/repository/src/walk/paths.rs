//! Walks one snapshot in path order, with one directory per level in memory.

use tokio_util::sync::CancellationToken;

use crate::blobs::BlobReader;
use crate::blobs::nodes::Nodes;
use crate::error::{Error, Result};
use crate::id::BlobId;
use crate::node::Node;

/// One step of a walk.
#[derive(Debug)]
pub enum Step {
    /// A node, before its content. For a directory, call `Walk::skip` to leave it out.
    Enter { path: Vec<u8>, node: Node },
    /// The end of a directory.
    Leave { path: Vec<u8>, node: Node },
    /// A directory that cannot be read, or the rest of one; the walk continues beside it.
    Unreadable { path: Vec<u8>, tree: BlobId, error: Error },
}

/// Walks through one tree.
#[derive(Debug)]
pub struct Walk<'a> {
    reader: &'a BlobReader,
    cancel: &'a CancellationToken,
    levels: Vec<Level>,
    next: Option<(Vec<u8>, Node)>,
}

#[derive(Debug)]
struct Level {
    path: Vec<u8>,
    /// The directory itself; None for the root.
    node: Option<Node>,
    tree: BlobId,
    nodes: Nodes,
}

impl<'a> Walk<'a> {
    /// Starts at a tree whose path is `path` (`/` for the root of a snapshot). Fails if this tree cannot be read.
    pub async fn start(
        reader: &'a BlobReader,
        path: &[u8],
        tree: &BlobId,
        cancel: &'a CancellationToken,
    ) -> Result<Self> {
        let nodes = reader.nodes_as_stored(tree).await?;
        Ok(Self {
            reader,
            cancel,
            levels: vec![Level { path: path.to_vec(), node: None, tree: *tree, nodes }],
            next: None,
        })
    }

    /// Skips the directory that was returned last.
    pub fn skip(&mut self) {
        self.next = None;
    }

    /// The next step; `None` at the end.
    pub async fn step(&mut self) -> Result<Option<Step>> {
        if self.cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        if let Some((path, node)) = self.next.take()
            && let Some(unreadable) = self.descend(path, node).await
        {
            return Ok(Some(unreadable));
        }
        let Some(level) = self.levels.last_mut() else { return Ok(None) };
        let node = match level.nodes.next() {
            Ok(Some(node)) => node,
            Ok(None) => {
                let level = self.levels.pop();
                let left =
                    level.and_then(|level| level.node.map(|node| Step::Leave { path: level.path, node }));
                return Ok(left);
            }
            Err(error) => {
                return Ok(Some(Step::Unreadable { path: level.path.clone(), tree: level.tree, error }));
            }
        };
        let path = join(&level.path, &node.name);
        if node.is_directory() {
            self.next = Some((path.clone(), node.clone()));
        }
        Ok(Some(Step::Enter { path, node }))
    }

    async fn descend(&mut self, path: Vec<u8>, node: Node) -> Option<Step> {
        let Some(tree) = node.subtree else {
            let error =
                Error::damaged(format!("directory '{}'", String::from_utf8_lossy(&path)), "it has no tree");
            return Some(Step::Unreadable { path, tree: BlobId(crate::id::Id([0; 32])), error });
        };
        match self.reader.nodes_as_stored(&tree).await {
            Ok(nodes) => {
                self.levels.push(Level { path, node: Some(node), tree, nodes });
                None
            }
            Err(error) => Some(Step::Unreadable { path, tree, error }),
        }
    }
}

/// `parent` and `name` with one slash in between.
pub(crate) fn join(parent: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = parent.to_vec();
    if path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}
