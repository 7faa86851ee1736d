//! A repository in memory, for tests of this crate and of crates that use it.

#[cfg(test)]
pub(crate) mod crashes;
pub mod parse;
#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
pub(crate) mod switchable;
#[cfg(test)]
pub(crate) mod unreliable;

use std::collections::BTreeMap;
use std::sync::Arc;

use lifeboat_store::Store;
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;

use crate::config::Version;
use crate::error::Result;
use crate::id::{BlobId, BlobKind, SnapshotId};
use crate::index::Index;
use crate::keys::Cost;
use crate::node::{Mode, Node, NodeKind, TreeBuilder};
use crate::repository::{InitOptions, Options, Repository};
use crate::saver::Saver;
use crate::snapshot::Snapshot;

/// The password of every test repository.
pub fn password() -> SecretString {
    SecretString::from("correct horse")
}

/// A key that is cheap to open.
pub fn cheap(version: Version) -> InitOptions {
    InitOptions { version, cost: Cost { n: 16, r: 1, p: 1 }, ..InitOptions::default() }
}

/// A new repository of version 2 in memory.
#[allow(clippy::missing_panics_doc, reason = "it is for tests")]
pub async fn memory_repository() -> Repository {
    new_repository(Store::memory(), Version::V2).await
}

/// A new repository in `store`.
#[allow(clippy::missing_panics_doc, reason = "it is for tests")]
pub async fn new_repository(store: Store, version: Version) -> Repository {
    let made = Repository::init(store, &password(), cheap(version), Options::default()).await;
    made.expect("a test store accepts a new repository")
}

/// Opens a repository that `new_repository` made, possibly through another store.
pub async fn opened(store: Store) -> Result<Repository> {
    Repository::open(store, &password(), Options::default()).await
}

/// The size of a blob in `save_snapshot`.
pub const PIECE: usize = 1000;

/// Saves a snapshot of files (`a/b`) with their contents, split into blobs of `PIECE` bytes. Its time is `second` of
/// the year 2026.
#[allow(clippy::missing_panics_doc, reason = "it is for tests")]
pub async fn save_snapshot(
    repository: &Repository,
    second: i64,
    files: &[(&str, &[u8])],
) -> (SnapshotId, Snapshot) {
    let index = Arc::new(Index::load(repository).await.expect("the index of a test can be read"));
    let saver = Arc::new(Saver::start(repository, index, None, CancellationToken::new()));
    let mut root = Directory::default();
    for (path, content) in files {
        root.insert(path, content);
    }
    let writer = Arc::clone(&saver);
    let tree = tokio::task::spawn_blocking(move || root.save(&writer)).await.expect("nothing panics");
    let tree = tree.expect("blobs of a test can be saved");
    let saver = Arc::into_inner(saver).expect("the thread is done with it");
    saver.finish().await.expect("packs of a test can be saved");
    let time = jiff::Timestamp::constant(1_767_225_600 + second, 0);
    let snapshot = Snapshot {
        time: crate::time::zoned(time, jiff::tz::Offset::UTC),
        parent: None,
        tree,
        paths: vec!["/".to_owned()],
        hostname: "host".to_owned(),
        username: "user".to_owned(),
        uid: 0,
        gid: 0,
        excludes: Vec::new(),
        tags: Vec::new(),
        original: None,
        program_version: String::new(),
        summary: None,
    };
    let id = repository.save_snapshot(&snapshot).await.expect("a snapshot of a test can be saved");
    (id, snapshot)
}

#[derive(Default)]
struct Directory {
    files: BTreeMap<String, Vec<u8>>,
    directories: BTreeMap<String, Directory>,
}

impl Directory {
    fn insert(&mut self, path: &str, content: &[u8]) {
        match path.split_once('/') {
            Some((name, rest)) => self.directories.entry(name.to_owned()).or_default().insert(rest, content),
            None => drop(self.files.insert(path.to_owned(), content.to_vec())),
        }
    }

    fn save(&self, saver: &Saver) -> Result<BlobId> {
        let mut nodes = BTreeMap::new();
        for (name, content) in &self.files {
            let blobs = content.chunks(PIECE).map(|piece| saver.save(BlobKind::Data, piece));
            let blobs = blobs.map(|saved| saved.map(|saved| saved.id)).collect::<Result<Vec<_>>>()?;
            nodes.insert(
                name.clone(),
                Node {
                    name: name.clone().into_bytes(),
                    mode: Mode(0o644),
                    size: content.len() as u64,
                    links: 1,
                    content: Some(blobs),
                    ..Node::default()
                },
            );
        }
        for (name, directory) in &self.directories {
            nodes.insert(
                name.clone(),
                Node {
                    name: name.clone().into_bytes(),
                    kind: NodeKind::Directory,
                    mode: Mode::from_unix(0o040_755),
                    links: 2,
                    subtree: Some(directory.save(saver)?),
                    ..Node::default()
                },
            );
        }
        let mut tree = TreeBuilder::default();
        for node in nodes.values() {
            tree.add(node)?;
        }
        Ok(saver.save(BlobKind::Tree, &tree.finish())?.id)
    }
}
