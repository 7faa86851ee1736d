//! Small snapshots in a repository, and the content that they must restore to.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::blobs::BlobReader;
use crate::error::Result;
use crate::id::{BlobId, BlobKind, SnapshotId};
use crate::node::{Node, NodeKind, TreeBuilder};
use crate::repository::Repository;
use crate::saver::Saver;
use crate::snapshots::samples::snapshot;

/// Path to content.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// An incompressible file; the same name gives the same bytes.
pub(crate) fn file(name: &str, length: usize) -> (String, Vec<u8>) {
    let mut content = Vec::with_capacity(length + 32);
    let mut block = crate::id::Id::of(name.as_bytes());
    while content.len() < length {
        content.extend_from_slice(&block.0);
        block = crate::id::Id::of(&block.0);
    }
    content.truncate(length);
    (name.to_owned(), content)
}

/// Saves files in two levels of directories, one blob per file, and a snapshot of them, taken on `day` of January
/// 2026.
pub(crate) async fn backup(repository: &Repository, day: u8, files: &Files) -> Result<SnapshotId> {
    let index = Arc::new(repository.load_index().await?);
    let saver = Arc::new(Saver::start(repository, index, None, CancellationToken::new()));
    let (worker, files) = (Arc::clone(&saver), files.clone());
    let tree = tokio::task::spawn_blocking(move || save(&worker, &files)).await.unwrap()?;
    Arc::into_inner(saver).unwrap().finish().await?;
    let (_, mut snapshot) = snapshot("x", &format!("2026-01-{day:02}T00:00:00Z"), "web", &["/data"], &[]);
    snapshot.tree = tree;
    repository.save_snapshot(&snapshot).await
}

fn save(saver: &Saver, files: &Files) -> Result<BlobId> {
    let mut inner = TreeBuilder::default();
    for (name, content) in files {
        let blob = saver.save(BlobKind::Data, content)?.id;
        let name = name.clone().into_bytes();
        inner.add(&Node {
            name,
            size: content.len() as u64,
            content: Some(vec![blob]),
            ..Node::default()
        })?;
    }
    let subtree = Some(saver.save(BlobKind::Tree, &inner.finish())?.id);
    let mut outer = TreeBuilder::default();
    outer.add(&Node { name: b"data".to_vec(), kind: NodeKind::Directory, subtree, ..Node::default() })?;
    Ok(saver.save(BlobKind::Tree, &outer.finish())?.id)
}

/// The content of a snapshot: the content of each file by its name, which is unique in a sample.
pub(crate) async fn restore(repository: &Repository, id: SnapshotId) -> Result<Files> {
    let index = Arc::new(repository.load_index().await?);
    let reader = BlobReader::new(repository, index);
    let mut trees = vec![repository.load_snapshot(id).await?.tree];
    let mut files = Files::new();
    while let Some(tree) = trees.pop() {
        for node in reader.load_tree(&tree).await? {
            if let Some(subtree) = node.subtree {
                trees.push(subtree);
                continue;
            }
            let mut content = Vec::new();
            for blob in node.blobs() {
                content.extend_from_slice(&reader.load(BlobKind::Data, blob).await?);
            }
            files.insert(node.display_name().into_owned(), content);
        }
    }
    Ok(files)
}
