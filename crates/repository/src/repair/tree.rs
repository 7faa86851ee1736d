//! Repairs a tree: directories that cannot be read become empty, files keep their remaining blobs, invalid entries
//! are removed. Unchanged trees keep their IDs. Dry runs only compute the IDs.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::is_lost;
use crate::blobs::BlobReader;
use crate::error::{Error, Result};
use crate::id::{BlobId, BlobKind, Id};
use crate::node::{Node, NodeKind, TreeBuilder};
use crate::saver::Saver;
use crate::walk::join;

/// The kind of a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MendedKind {
    /// A file lost some or all of its content.
    ContentRemoved,
    /// The size of a file did not match its blobs.
    SizeCorrected,
    /// A directory could not be read and is empty now.
    DirectoryEmptied,
    /// An entry with an invalid type or name was removed.
    EntryRemoved,
}

/// One repair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mended {
    pub path: String,
    pub kind: MendedKind,
}

/// Repairs trees; remembers the results, so that snapshots that share a tree share its repair.
pub(super) struct Mender<'a> {
    pub(super) reader: &'a BlobReader,
    /// None for a dry run.
    pub(super) saver: Option<Arc<Saver>>,
    pub(super) cancel: &'a CancellationToken,
    pub(super) replaced: HashMap<BlobId, BlobId>,
    pub(super) mended: Vec<Mended>,
}

/// A directory that is being repaired.
struct Level {
    path: Vec<u8>,
    tree: BlobId,
    changed: bool,
    /// It could not be read, and is now empty.
    lost: bool,
    nodes: std::vec::IntoIter<Node>,
    builder: TreeBuilder,
    /// The entry whose subtree is being repaired, one level below.
    waiting: Option<Node>,
}

impl Mender<'_> {
    /// The ID of the repaired tree; `None` if the root itself is lost.
    pub(super) async fn mend(&mut self, root: BlobId) -> Result<Option<BlobId>> {
        if let Some(known) = self.replaced.get(&root) {
            return Ok(Some(*known));
        }
        let Some(nodes) = self.load(&root).await? else { return Ok(None) };
        let mut levels = vec![self.level(b"/".to_vec(), root, nodes)];
        loop {
            if self.cancel.is_cancelled() {
                return Err(Error::Cancelled);
            }
            let Some(level) = levels.last_mut() else { return Ok(None) };
            if let Some(node) = level.nodes.next() {
                let deeper = self.entry(level, node).await?;
                levels.extend(deeper);
                continue;
            }
            let Some(done) = levels.pop() else { return Ok(None) };
            let id = self.finish(done).await?;
            let Some(parent) = levels.last_mut() else { return Ok(Some(id)) };
            add_waiting(parent, id)?;
        }
    }

    /// Sorted by name, each once: a tree cannot be written otherwise.
    fn level(&mut self, path: Vec<u8>, tree: BlobId, mut nodes: Vec<Node>) -> Level {
        let ordered = nodes.is_sorted_by(|one, other| one.name < other.name);
        if !ordered {
            nodes.sort_by(|one, other| one.name.cmp(&other.name));
            nodes.dedup_by(|later, earlier| {
                let same = later.name == earlier.name;
                if same {
                    self.note(&join(&path, &later.name), MendedKind::EntryRemoved);
                }
                same
            });
        }
        let (nodes, builder) = (nodes.into_iter(), TreeBuilder::default());
        Level { path, tree, changed: !ordered, lost: false, nodes, builder, waiting: None }
    }

    /// Adds an entry to the repaired directory, or starts with the directory that it is.
    async fn entry(&mut self, level: &mut Level, mut node: Node) -> Result<Option<Level>> {
        let path = join(&level.path, &node.name);
        let invalid = match &node.kind {
            NodeKind::Irregular => true,
            NodeKind::Unknown(word) => word.is_empty(),
            _ => !node.has_safe_name(),
        };
        if invalid {
            level.changed = true;
            self.note(&path, MendedKind::EntryRemoved);
            return Ok(None);
        }
        if !node.is_directory() {
            if node.is_file() {
                level.changed |= self.mend_file(&path, &mut node)?;
            }
            level.builder.add(&node)?;
            return Ok(None);
        }
        let tree = node.subtree.unwrap_or(BlobId(Id([0; 32])));
        level.waiting = Some(node);
        if let Some(known) = self.replaced.get(&tree).copied() {
            add_waiting(level, known)?;
            return Ok(None);
        }
        let nodes = self.load(&tree).await?;
        let lost = nodes.is_none();
        if lost {
            self.note(&path, MendedKind::DirectoryEmptied);
        }
        let mut deeper = self.level(path, tree, nodes.unwrap_or_default());
        deeper.changed |= lost;
        deeper.lost = lost;
        Ok(Some(deeper))
    }

    /// Keeps the blobs that exist; returns whether anything changed.
    fn mend_file(&mut self, path: &[u8], node: &mut Node) -> Result<bool> {
        let mut content = Vec::with_capacity(node.blobs().len());
        let mut size = 0_u64;
        for blob in node.blobs() {
            if let Some(location) = self.reader.index().find(BlobKind::Data, blob)? {
                content.push(*blob);
                size = size.saturating_add(u64::from(location.plain_length()));
            }
        }
        let lost = content.len() != node.blobs().len() || node.content.is_none();
        if lost {
            self.note(path, MendedKind::ContentRemoved);
        } else if size != node.size {
            self.note(path, MendedKind::SizeCorrected);
        }
        let changed = lost || size != node.size;
        node.content = Some(content);
        node.size = size;
        Ok(changed)
    }

    async fn load(&self, tree: &BlobId) -> Result<Option<Vec<Node>>> {
        match self.reader.load_tree(tree).await {
            Ok(nodes) => Ok(Some(nodes)),
            Err(error) if is_lost(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn finish(&mut self, level: Level) -> Result<BlobId> {
        if !level.changed {
            self.replaced.insert(level.tree, level.tree);
            return Ok(level.tree);
        }
        let json = level.builder.finish();
        let id = match &self.saver {
            Some(saver) => {
                let saver = Arc::clone(saver);
                let work = move || saver.save(BlobKind::Tree, &json);
                tokio::task::spawn_blocking(work).await.unwrap_or(Err(Error::Cancelled))?.id
            }
            None => BlobId(Id::of(&json)),
        };
        // A lost root is not the same as an empty one, so the result for a lost tree is not remembered.
        if !level.lost {
            self.replaced.insert(level.tree, id);
        }
        Ok(id)
    }

    fn note(&mut self, path: &[u8], kind: MendedKind) {
        self.mended.push(Mended { path: String::from_utf8_lossy(path).into_owned(), kind });
    }
}

fn add_waiting(level: &mut Level, subtree: BlobId) -> Result<()> {
    if let Some(mut node) = level.waiting.take() {
        level.changed |= node.subtree != Some(subtree);
        node.subtree = Some(subtree);
        level.builder.add(&node)?;
    }
    Ok(())
}
