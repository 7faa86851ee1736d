//! The blobs that snapshots need: one bit per entry of the index. For statistics, and for committing a prepared
//! snapshot, which relies on finding all of them; so content that cannot be read is an error, and never "not needed".
//! (Prune has a walk of its own, which collects what is missing.)

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::blobs::BlobReader;
use crate::error::{Error, Result};
use crate::id::BlobKind;
use crate::index::Index;
use crate::node::Node;
use crate::progress::Progress;
use crate::walk::{EntrySet, Root, Visit, visit_trees};

/// The blobs that are needed. Every copy of a needed blob counts as used.
#[derive(Debug)]
pub struct UsedBlobs {
    entries: Arc<EntrySet>,
}

impl UsedBlobs {
    /// Whether the entry with this number (`Entry::number`) is a copy of a needed blob.
    pub fn is_used(&self, entry_number: u64) -> bool {
        self.entries.contains(entry_number)
    }

    /// The number of entries of needed blobs; copies are counted.
    pub fn count(&self) -> u64 {
        self.entries.count()
    }
}

/// Finds every blob below `roots` (trees, with or without their snapshot). A tree that is missing or damaged, or a
/// blob that is in no index, fails the whole search.
pub async fn used_blobs<R: Into<Root>>(
    reader: &BlobReader,
    roots: impl IntoIterator<Item = R>,
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<UsedBlobs> {
    let index = Arc::clone(reader.index());
    let entries = Arc::new(EntrySet::new(index.len()));
    let marks = Arc::clone(&entries);
    let work = Arc::new(move |visit: &mut Visit| mark_content(&index, &marks, visit));
    let roots = roots.into_iter().map(Into::into);
    visit_trees(reader, roots, &entries, work, progress, cancel).await?;
    Ok(UsedBlobs { entries })
}

fn mark_content(index: &Index, marks: &EntrySet, visit: &mut Visit) -> Result<()> {
    let name = visit.describe();
    let problem =
        |node: &Node, detail: String| Error::damaged(&name, format!("'{}' {detail}", node.display_name()));
    while let Some(node) = visit.next_node().map_err(|error| unreadable(&name, error))? {
        if node.is_directory() && node.subtree.is_none() {
            return Err(problem(&node, "is a directory without a tree".to_owned()));
        }
        for blob in node.blobs() {
            let copies = index.find_all(BlobKind::Data, blob)?;
            if copies.is_empty() {
                return Err(problem(&node, format!("needs data blob {blob}, which is in no index")));
            }
            marks.insert_all(&copies);
        }
    }
    Ok(())
}

/// The error of a walk that needs every tree.
pub(crate) fn unreadable(tree: &str, error: Error) -> Error {
    if matches!(error, Error::Cancelled) { error } else { Error::damaged(tree, error) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::FileKind;
    use crate::id::BlobId;
    use crate::testing::{memory_repository, save_snapshot};

    async fn find(repository: &crate::repository::Repository, roots: Vec<Root>) -> Result<UsedBlobs> {
        let index = Arc::new(repository.load_index().await?);
        let reader = BlobReader::new(repository, index);
        used_blobs(&reader, roots, &Progress::default(), &CancellationToken::new()).await
    }

    #[tokio::test]
    async fn what_snapshots_need_is_used_and_nothing_else() {
        let repository = memory_repository().await;
        let (one, first) = save_snapshot(&repository, 1, &[("a/b", &[1; 2500]), ("c", b"x")]).await;
        let (two, second) = save_snapshot(&repository, 2, &[("a/b", &[1; 2500]), ("d", b"y")]).await;
        // Two different pieces of `a/b` (1000 and 500 bytes), `a`, `c`, `d` and two roots.
        let all = find(&repository, vec![(one, first.tree).into(), (two, second.tree).into()]).await.unwrap();
        assert_eq!((all.count(), repository.load_index().await.unwrap().len()), (7, 7));
        let some = find(&repository, vec![first.tree.into()]).await.unwrap();
        assert_eq!(some.count(), 5);
        assert_eq!(find(&repository, Vec::new()).await.unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_tree_that_cannot_be_read_fails_the_whole_and_names_its_snapshot() {
        let repository = memory_repository().await;
        let (id, snapshot) = save_snapshot(&repository, 1, &[("a/b", b"x")]).await;
        let roots = vec![Root::from((id, snapshot.tree))];
        let missing = Root::from(BlobId(crate::id::Id([1; 32])));
        assert!(find(&repository, vec![missing]).await.unwrap_err().to_string().contains("tree 01010101"));
        for pack in repository.list(FileKind::Pack).await.unwrap() {
            repository.remove_file(FileKind::Pack, pack.id).await.unwrap();
        }
        let error = find(&repository, roots).await.unwrap_err().to_string();
        assert!(error.contains(&format!("of snapshot {}", id.short())), "{error}");
    }
}
