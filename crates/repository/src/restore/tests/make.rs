//! Makes repositories with snapshots of any shape, including those that no backup would write.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::id::{BlobId, BlobKind};
use crate::index::Index;
use crate::node::{Mode, Node, NodeKind, NodeTime, TreeBuilder};
use crate::repository::Repository;
use crate::saver::Saver;
use crate::snapshot::Snapshot;
use crate::testing::memory_repository;

/// A repository with one snapshot.
pub(crate) struct TestSnapshot {
    pub(crate) repository: Repository,
    pub(crate) snapshot: Snapshot,
}

/// A node with its children.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) node: Node,
    pub(crate) chunks: Vec<Vec<u8>>,
    pub(crate) children: Vec<Entry>,
}

impl Entry {
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Node)) -> Self {
        change(&mut self.node);
        self
    }
}

/// A node that belongs to the user who runs the test.
pub(crate) fn node(name: impl AsRef<[u8]>, kind: NodeKind, mode: u32) -> Entry {
    let node = Node {
        name: name.as_ref().to_vec(),
        kind,
        mode: Mode::from_unix(mode),
        mtime: NodeTime::new(1_600_000_000, 123_456_789),
        atime: NodeTime::new(1_600_000_001, 987_654_321),
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        links: 1,
        ..Node::default()
    };
    Entry { node, chunks: Vec::new(), children: Vec::new() }
}

pub(crate) fn file(name: impl AsRef<[u8]>, chunks: &[&[u8]]) -> Entry {
    let mut entry = node(name, NodeKind::File, 0o100_640);
    entry.node.size = chunks.iter().map(|chunk| chunk.len() as u64).sum();
    entry.chunks = chunks.iter().map(|chunk| chunk.to_vec()).collect();
    entry
}

pub(crate) fn directory(name: impl AsRef<[u8]>, children: Vec<Entry>) -> Entry {
    let mut entry = node(name, NodeKind::Directory, 0o040_750);
    entry.children = children;
    entry
}

pub(crate) fn link(name: impl AsRef<[u8]>, target: &str) -> Entry {
    node(name, NodeKind::Symlink, 0o120_777).with(|node| node.link_target = target.into())
}

/// Saves the entries, in the given order, as the root of a snapshot.
pub(crate) async fn make(entries: Vec<Entry>) -> TestSnapshot {
    make_in(memory_repository().await, entries).await
}

pub(crate) async fn make_in(repository: Repository, entries: Vec<Entry>) -> TestSnapshot {
    let index = Arc::new(Index::load(&repository).await.unwrap());
    let saver = Arc::new(Saver::start(&repository, index, None, CancellationToken::new()));
    let worker = Arc::clone(&saver);
    let saving = tokio::task::spawn_blocking(move || save(&worker, entries));
    let tree = saving.await.unwrap();
    Arc::into_inner(saver).unwrap().finish().await.unwrap();
    let snapshot = Snapshot {
        time: jiff::Zoned::now(),
        parent: None,
        tree,
        paths: vec!["/".to_owned()],
        hostname: String::new(),
        username: String::new(),
        uid: 0,
        gid: 0,
        excludes: Vec::new(),
        tags: Vec::new(),
        original: None,
        program_version: String::new(),
        summary: None,
    };
    TestSnapshot { repository, snapshot }
}

/// Recursive: tests with deep trees do not overflow the stack, because they build them level by level (`deep`).
fn save(saver: &Saver, entries: Vec<Entry>) -> BlobId {
    let mut nodes = Vec::new();
    for mut entry in entries {
        match entry.node.kind {
            NodeKind::File if entry.node.content.is_none() => {
                let ids = entry.chunks.iter().map(|chunk| saver.save(BlobKind::Data, chunk).unwrap().id);
                entry.node.content = Some(ids.collect());
            }
            NodeKind::Directory if entry.node.subtree.is_none() => {
                entry.node.subtree = Some(save(saver, entry.children));
            }
            _ => {}
        }
        nodes.push(entry.node);
    }
    save_tree(saver, &nodes)
}

/// A tree with any names in any order, which `TreeBuilder` would refuse.
fn save_tree(saver: &Saver, nodes: &[Node]) -> BlobId {
    let mut parts = Vec::new();
    for node in nodes {
        let mut builder = TreeBuilder::default();
        builder.add(node).unwrap();
        let json = String::from_utf8(builder.finish()).unwrap();
        let json = json.trim_start_matches("{\"nodes\":[").trim_end();
        parts.push(json[..json.len() - 2].to_owned());
    }
    let json = format!("{{\"nodes\":[{}]}}\n", parts.join(","));
    saver.save(BlobKind::Tree, json.as_bytes()).unwrap().id
}

/// A chain of directories, each with one file, saved from the bottom up.
pub(crate) async fn make_deep(depth: usize) -> TestSnapshot {
    make_levels(depth, |below, content| {
        let leaf = file("f", &[CONTENT]).with(|node| node.content = Some(vec![content]));
        vec![directory("d", Vec::new()).with(|node| node.subtree = Some(below)).node, leaf.node]
    })
    .await
}

/// Few trees and many paths: every level contains the one below it twice.
pub(crate) async fn make_wide(levels: usize) -> TestSnapshot {
    make_levels(levels, |below, _| {
        let twice =
            ["a", "b"].map(|name| directory(name, Vec::new()).with(|node| node.subtree = Some(below)).node);
        twice.to_vec()
    })
    .await
}

const CONTENT: &[u8] = b"deep";

/// Nested trees; `level` makes one, given the tree below it and the blob of `CONTENT`.
async fn make_levels(
    levels: usize,
    level: impl Fn(BlobId, BlobId) -> Vec<Node> + Send + 'static,
) -> TestSnapshot {
    let repository = memory_repository().await;
    let index = Arc::new(Index::load(&repository).await.unwrap());
    let saver = Arc::new(Saver::start(&repository, index, None, CancellationToken::new()));
    let worker = Arc::clone(&saver);
    let saving = tokio::task::spawn_blocking(move || {
        let content = worker.save(BlobKind::Data, CONTENT).unwrap().id;
        let mut tree = save_tree(&worker, &[]);
        for _ in 0..levels {
            tree = save_tree(&worker, &level(tree, content));
        }
        tree
    });
    let tree = saving.await.unwrap();
    Arc::into_inner(saver).unwrap().finish().await.unwrap();
    let made = make(Vec::new()).await;
    TestSnapshot { repository, snapshot: Snapshot { tree, ..made.snapshot } }
}
