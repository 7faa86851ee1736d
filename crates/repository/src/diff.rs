//! The differences between two snapshots, path by path, and their size: restic's `diff`. Differences are returned one
//! at a time; directories that are equal in both are only counted.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::blobs::BlobReader;
use crate::error::{Error, Result};
use crate::id::{BlobId, BlobKind};
use crate::lock::{LockKind, LockOptions};
use crate::locked::locked;
use crate::node::{Node, NodeKind};
use crate::progress::Progress;
use crate::repository::Repository;
use crate::walk::{EntrySet, Root, Visit, find_directory, join, visit_trees};

/// One side of a comparison.
#[derive(Debug, Clone)]
pub struct Side {
    /// The name that the caller gave it.
    pub name: String,
    pub tree: BlobId,
    pub subfolder: Option<std::path::PathBuf>,
}

/// One difference. The modifier is `+`, `-`, `M` (content), `U` (metadata), `T` (type), or several of them; `M?`
/// means that the content changed although nothing else did, which may indicate a failing disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    pub message_type: &'static str,
    pub path: String,
    pub modifier: &'static str,
}

/// The counts of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DiffCounts {
    pub files: u64,
    pub dirs: u64,
    pub others: u64,
    pub data_blobs: u64,
    pub tree_blobs: u64,
    pub bytes: u64,
}

/// The totals, as in restic's JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DiffStatistics {
    pub message_type: &'static str,
    pub source_snapshot: String,
    pub target_snapshot: String,
    pub changed_files: u64,
    pub added: DiffCounts,
    pub removed: DiffCounts,
    /// Directories that could not be read.
    #[serde(skip)]
    pub problems: Vec<String>,
}

/// Compares two trees, under a shared lock or without a lock. With `metadata`, entries whose metadata alone changed
/// are reported too.
pub async fn diff(
    repository: &Repository,
    before: &Side,
    after: &Side,
    metadata: bool,
    lock: Option<&LockOptions>,
    each: &mut (dyn FnMut(Change) -> Result<()> + Send),
    cancel: &CancellationToken,
) -> Result<DiffStatistics> {
    locked(repository, LockKind::Shared, lock, async |_| {
        let reader = BlobReader::new(repository, Arc::new(repository.load_index().await?));
        let mut trees = [before.tree, after.tree];
        for (tree, side) in trees.iter_mut().zip([before, after]) {
            *tree = find_directory(
                &reader,
                *tree,
                side.subfolder.as_deref().unwrap_or(std::path::Path::new("/")),
            )
            .await?;
        }
        let mut comparer = Comparer::new(&reader, metadata, each, cancel);
        comparer.statistics.source_snapshot.clone_from(&before.name);
        comparer.statistics.target_snapshot.clone_from(&after.name);
        comparer.compare(trees).await?;
        comparer.finish().await
    })
    .await
}

struct Comparer<'a> {
    reader: &'a BlobReader,
    metadata: bool,
    each: &'a mut (dyn FnMut(Change) -> Result<()> + Send),
    cancel: &'a CancellationToken,
    /// The blobs before and after, by their first entries in the index.
    blobs: [EntrySet; 2],
    /// Trees that are equal on both sides.
    common: Vec<BlobId>,
    statistics: DiffStatistics,
}

/// A directory, of both sides or of one.
struct Level {
    path: Vec<u8>,
    nodes: [std::iter::Peekable<std::vec::IntoIter<Node>>; 2],
}

const BEFORE: usize = 0;
const AFTER: usize = 1;

impl<'a> Comparer<'a> {
    fn new(
        reader: &'a BlobReader,
        metadata: bool,
        each: &'a mut (dyn FnMut(Change) -> Result<()> + Send),
        cancel: &'a CancellationToken,
    ) -> Self {
        let statistics = DiffStatistics {
            message_type: "statistics",
            source_snapshot: String::new(),
            target_snapshot: String::new(),
            changed_files: 0,
            added: DiffCounts::default(),
            removed: DiffCounts::default(),
            problems: Vec::new(),
        };
        let blobs = [EntrySet::new(reader.index().len()), EntrySet::new(reader.index().len())];
        Self { reader, metadata, each, cancel, blobs, common: Vec::new(), statistics }
    }

    async fn compare(&mut self, trees: [BlobId; 2]) -> Result<()> {
        for (side, tree) in trees.iter().enumerate() {
            self.mark(side, BlobKind::Tree, tree)?;
        }
        let before = self.reader.load_tree(&trees[BEFORE]).await?;
        let after = self.reader.load_tree(&trees[AFTER]).await?;
        let mut levels = vec![Level::new(b"/".to_vec(), before, after)];
        while let Some(level) = levels.last_mut() {
            if self.cancel.is_cancelled() {
                return Err(Error::Cancelled);
            }
            let [before, after] = level.next();
            if before.is_none() && after.is_none() {
                levels.pop();
                continue;
            }
            let deeper = self.entry(&level.path, before, after).await?;
            levels.extend(deeper);
        }
        Ok(())
    }

    /// Reports how an entry differs; returns the directory below it if that has to be compared, too.
    async fn entry(
        &mut self,
        parent: &[u8],
        before: Option<Node>,
        after: Option<Node>,
    ) -> Result<Option<Level>> {
        for (side, node) in [&before, &after].into_iter().enumerate() {
            if let Some(node) = node {
                self.mark_node(side, node)?;
            }
        }
        let (subtrees, path) = match (&before, &after) {
            (Some(one), Some(other)) => {
                let path = path_of(parent, other);
                self.report_change(&path, one, other)?;
                if !(one.is_directory() && other.is_directory()) {
                    return Ok(None);
                }
                if let (Some(tree), true) = (one.subtree, one.subtree == other.subtree) {
                    self.common.push(tree);
                    return Ok(None);
                }
                ([Some(one), Some(other)], path)
            }
            (Some(node), None) | (None, Some(node)) => {
                let path = path_of(parent, node);
                let added = after.is_some();
                let counts = if added { &mut self.statistics.added } else { &mut self.statistics.removed };
                match node.kind {
                    NodeKind::File => counts.files += 1,
                    NodeKind::Directory => counts.dirs += 1,
                    _ => counts.others += 1,
                }
                self.report(&path, if added { "+" } else { "-" })?;
                if !node.is_directory() {
                    return Ok(None);
                }
                ([before.as_ref(), after.as_ref()], path)
            }
            (None, None) => return Ok(None),
        };
        let mut nodes = [Vec::new(), Vec::new()];
        for (nodes, node) in nodes.iter_mut().zip(subtrees) {
            let Some(node) = node else { continue };
            match self.load(node).await {
                Ok(loaded) => *nodes = loaded,
                Err(Error::Cancelled) => return Err(Error::Cancelled),
                Err(error) => {
                    let path = String::from_utf8_lossy(&path);
                    self.statistics.problems.push(format!("{path}: {error}"));
                    // With one side missing, everything would look added or removed.
                    return Ok(None);
                }
            }
        }
        let [before, after] = nodes;
        Ok(Some(Level::new(path, before, after)))
    }

    async fn load(&self, node: &Node) -> Result<Vec<Node>> {
        match &node.subtree {
            Some(tree) => self.reader.load_tree(tree).await,
            None => Err(Error::damaged(format!("directory '{}'", node.display_name()), "it has no tree")),
        }
    }

    fn report_change(&mut self, path: &[u8], before: &Node, after: &Node) -> Result<()> {
        let type_changed = before.kind != after.kind;
        let both_files = before.is_file() && after.is_file();
        let modifier = if both_files && before.content != after.content {
            self.statistics.changed_files += 1;
            let bare = |node: &Node| Node { content: None, ..node.clone() };
            if bare(before) == bare(after) { "M?" } else { "M" }
        } else {
            match (type_changed, self.metadata && before != after) {
                (false, false) => return Ok(()),
                (true, false) => "T",
                (false, true) => "U",
                (true, true) => "TU",
            }
        };
        self.report(path, modifier)
    }

    fn report(&mut self, path: &[u8], modifier: &'static str) -> Result<()> {
        let path = String::from_utf8_lossy(path).into_owned();
        (self.each)(Change { message_type: "change", path, modifier })
    }

    fn mark_node(&mut self, side: usize, node: &Node) -> Result<()> {
        if let (true, Some(tree)) = (node.is_directory(), &node.subtree) {
            self.mark(side, BlobKind::Tree, tree)?;
        }
        for blob in node.blobs() {
            self.mark(side, BlobKind::Data, blob)?;
        }
        Ok(())
    }

    fn mark(&mut self, side: usize, kind: BlobKind, id: &BlobId) -> Result<()> {
        match self.reader.index().find_all(kind, id)?.first() {
            Some(entry) => drop(self.blobs[side].insert(entry.number)),
            None => self.statistics.problems.push(format!("{kind} blob {id} is in no index")),
        }
        Ok(())
    }

    /// Blobs that only one side needs were added or removed.
    async fn finish(mut self) -> Result<DiffStatistics> {
        let common = Arc::new(EntrySet::new(self.reader.index().len()));
        let problems = Arc::new(Mutex::new(Vec::new()));
        let (index, marks, found) =
            (Arc::clone(self.reader.index()), Arc::clone(&common), Arc::clone(&problems));
        let work = move |visit: &mut Visit| loop {
            match visit.next_node() {
                Ok(Some(node)) => {
                    for blob in node.blobs() {
                        marks.insert_all(&index.find_all(BlobKind::Data, blob)?);
                    }
                }
                Ok(None) => return Ok(()),
                Err(Error::Cancelled) => return Err(Error::Cancelled),
                Err(error) => {
                    let problem = format!("{}: {error}", visit.describe());
                    found.lock().unwrap_or_else(PoisonError::into_inner).push(problem);
                    return Ok(());
                }
            }
        };
        let roots = std::mem::take(&mut self.common).into_iter().map(Root::from);
        let progress = Progress::default();
        visit_trees(self.reader, roots, &common, Arc::new(work), &progress, self.cancel).await?;
        let [before, after] = &self.blobs;
        let statistics = &mut self.statistics;
        self.reader.index().for_each(&mut |entry| {
            let (was, is) = (before.contains(entry.number), after.contains(entry.number));
            if was == is || common.contains(entry.number) {
                return Ok(());
            }
            let counts = if is { &mut statistics.added } else { &mut statistics.removed };
            match entry.kind {
                BlobKind::Data => counts.data_blobs += 1,
                BlobKind::Tree => counts.tree_blobs += 1,
            }
            counts.bytes += u64::from(entry.location.plain_length());
            Ok(())
        })?;
        statistics.problems.append(&mut problems.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(self.statistics)
    }
}

impl Level {
    fn new(path: Vec<u8>, before: Vec<Node>, after: Vec<Node>) -> Self {
        Self { path, nodes: [before.into_iter().peekable(), after.into_iter().peekable()] }
    }

    /// The next name, on the sides that have it.
    fn next(&mut self) -> [Option<Node>; 2] {
        let [before, after] = &mut self.nodes;
        match (before.peek(), after.peek()) {
            (Some(one), Some(other)) if one.name < other.name => [before.next(), None],
            (Some(one), Some(other)) if one.name > other.name => [None, after.next()],
            _ => [before.next(), after.next()],
        }
    }
}

/// The path, with a slash at its end for a directory.
fn path_of(parent: &[u8], node: &Node) -> Vec<u8> {
    let mut path = join(parent, &node.name);
    if node.is_directory() {
        path.push(b'/');
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{memory_repository, save_snapshot};

    #[tokio::test]
    async fn differences_are_reported_in_the_order_of_paths() {
        let repository = memory_repository().await;
        let old: &[(&str, &[u8])] =
            &[("a/b", b"1"), ("gone/x", b"2"), ("same/s", &[7; 1500]), ("type", b"3"), ("z", b"4")];
        let new: &[(&str, &[u8])] =
            &[("a/b", b"one"), ("new/n", b"5"), ("same/s", &[7; 1500]), ("type/t", b"3"), ("z", b"9")];
        let (_, before) = save_snapshot(&repository, 1, old).await;
        let (_, after) = save_snapshot(&repository, 2, new).await;
        let side = |name: &str, tree| Side { name: name.to_owned(), tree, subfolder: None };
        let mut reported = Vec::new();
        let mut each = |change: Change| {
            reported.push(format!("{} {}", change.modifier, change.path));
            Ok(())
        };
        let (before, after) = (side("one", before.tree), side("two", after.tree));
        let cancel = CancellationToken::new();
        let statistics = diff(&repository, &before, &after, false, None, &mut each, &cancel).await.unwrap();
        // Only the content of `z` changed.
        let expected = ["M /a/b", "- /gone/", "- /gone/x", "+ /new/", "+ /new/n", "T /type/", "M? /z"];
        assert_eq!(reported, expected);
        assert_eq!(statistics.changed_files, 2);
        let (added, removed) = (statistics.added, statistics.removed);
        assert_eq!((added.files, added.dirs, added.data_blobs, added.tree_blobs), (1, 1, 3, 4));
        assert_eq!((removed.files, removed.dirs, removed.data_blobs, removed.tree_blobs), (1, 1, 4, 3));
        assert_eq!(statistics.problems, Vec::<String>::new());
        let json = serde_json::to_value(&statistics).unwrap();
        assert_eq!(json["source_snapshot"], "one");
        let same = diff(&repository, &after, &after, true, None, &mut |_| Ok(()), &cancel).await.unwrap();
        assert_eq!((same.added, same.removed), (DiffCounts::default(), DiffCounts::default()));
    }
}
