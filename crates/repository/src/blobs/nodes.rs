//! The nodes of a directory, one at a time. The tree of a large directory stays compressed in memory: its hash is
//! checked first, and then it is decompressed again as its nodes are taken.

use std::io::{self, Cursor, Read};
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;

use super::BlobReader;
use crate::config::Version;
use crate::crypto::OVERHEAD;
use crate::error::{Error, Result};
use crate::id::{BlobId, BlobKind, Hasher};
use crate::index::Entry;
use crate::node::Node;
use crate::node::stream::NodeStream;

/// Smaller trees are parsed as a whole.
pub(crate) const LARGE: u32 = 4 << 20;
/// How much is hashed at a time.
const PIECE: usize = 128 * 1024;

/// The nodes of one directory.
#[derive(Debug)]
pub(crate) enum Nodes {
    Parsed(std::vec::IntoIter<Node>),
    /// With the ID of the tree, for messages.
    Streamed(Box<NodeStream<TreeSource>>, BlobId),
}

impl Nodes {
    pub(crate) fn none() -> Self {
        Self::Parsed(Vec::new().into_iter())
    }

    /// The next node; after an error, there are no more.
    pub(crate) fn next(&mut self) -> Result<Option<Node>> {
        match self {
            Self::Parsed(nodes) => Ok(nodes.next()),
            Self::Streamed(nodes, id) => nodes.next().map_err(|error| match error {
                Error::Damaged { detail, what } => {
                    Error::damaged(format!("tree {}", id.short()), format!("{what}: {detail}"))
                }
                other => other,
            }),
        }
    }
}

impl BlobReader {
    /// Whether the nodes of this directory are streamed. False for a tree that is in no index.
    pub(crate) fn is_large(&self, id: &BlobId) -> Result<bool> {
        let location = self.index().find(BlobKind::Tree, id)?;
        Ok(location.is_some_and(|location| location.plain_length() >= LARGE))
    }

    /// Waits for the permission to have a large tree in memory: walks that visit many trees concurrently have one large
    /// tree at a time.
    pub(crate) async fn one_large_tree(&self) -> Result<OwnedSemaphorePermit> {
        Arc::clone(&self.large).acquire_owned().await.map_err(|_| Error::Cancelled)
    }

    /// The nodes of a directory, sorted by name, unless the tree is large: then in its own order.
    pub(crate) async fn nodes(&self, id: &BlobId) -> Result<Nodes> {
        if let Some(streamed) = self.streamed(id, LARGE).await? {
            return Ok(streamed);
        }
        let mut nodes = self.load_tree(id).await?;
        nodes.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(Nodes::Parsed(nodes.into_iter()))
    }

    /// The nodes of a directory in the order of its tree.
    pub(crate) async fn nodes_as_stored(&self, id: &BlobId) -> Result<Nodes> {
        match self.streamed(id, LARGE).await? {
            Some(streamed) => Ok(streamed),
            None => Ok(Nodes::Parsed(self.load_tree(id).await?.into_iter())),
        }
    }

    /// `None` if the tree is smaller than `large`, or no copy can be read: loading it as a whole tries again, and says
    /// why.
    async fn streamed(&self, id: &BlobId, large: u32) -> Result<Option<Nodes>> {
        let copies = self.index().find_all(BlobKind::Tree, id)?;
        if copies.first().is_none_or(|copy| copy.location.plain_length() < large) {
            return Ok(None);
        }
        let source = self.first_intact(copies).await;
        Ok(source.map(|source| Nodes::Streamed(Box::new(NodeStream::new(source)), *id)))
    }

    /// The content of a tree, from its first intact copy.
    pub(crate) async fn tree_source(&self, id: &BlobId) -> Result<Option<TreeSource>> {
        let copies = self.index().find_all(BlobKind::Tree, id)?;
        Ok(self.first_intact(copies).await)
    }

    async fn first_intact(&self, copies: Vec<Entry>) -> Option<TreeSource> {
        for copy in copies {
            match self.source(&copy).await {
                Ok(source) => return Some(source),
                Err(error) => {
                    tracing::debug!(tree = %copy.id, pack = %copy.location.pack, %error, "a copy of a tree cannot be read");
                }
            }
        }
        None
    }

    async fn source(&self, entry: &Entry) -> Result<TreeSource> {
        let sealed = Vec::from(self.read_range(&entry.location).await?);
        let (reader, entry) = (self.clone(), *entry);
        let opening = tokio::task::spawn_blocking(move || reader.open_source(&entry, sealed));
        opening.await.unwrap_or(Err(Error::Cancelled))
    }

    fn open_source(&self, entry: &Entry, mut sealed: Vec<u8>) -> Result<TreeSource> {
        let damaged =
            |detail: &dyn std::fmt::Display| Error::damaged(format!("tree {}", entry.id.short()), detail);
        let is_compressed = entry.location.uncompressed_length != 0;
        if is_compressed && self.repository().config().version == Version::V1 {
            return Err(damaged(&"a repository of this version has no compressed trees"));
        }
        let plain = self.repository().key().open(&mut sealed).map_err(|error| damaged(&error))?.len();
        // The nonce is before the plain text, and the tag after it.
        let start = (sealed.len() - plain).min(OVERHEAD / 2);
        let content = Bytes::from(sealed).slice(start..start + plain);
        let open = || TreeSource::new(content.clone(), is_compressed).map_err(|error| damaged(&error));
        let length = entry.location.plain_length().into();
        check(&mut open()?, entry.id, length).map_err(|error| damaged(&error))?;
        open()
    }
}

/// Fails unless length and hash of the content are those of the blob. Ends as soon as it is longer.
fn check(source: &mut TreeSource, id: BlobId, length: u64) -> io::Result<()> {
    let mut hasher = Hasher::new();
    let mut piece = vec![0; PIECE];
    let mut left = length;
    loop {
        let count = source.read(&mut piece)?;
        if count == 0 {
            break;
        }
        hasher.update(&piece[..count]);
        let rest = left.checked_sub(count as u64);
        left = rest.ok_or_else(|| io::Error::other("it is longer than its index says"))?;
    }
    if left > 0 || hasher.finish() != id.0 {
        return Err(io::Error::other("its content does not match its ID"));
    }
    Ok(())
}

/// The JSON of a large tree, decompressed as it is read.
pub(crate) enum TreeSource {
    Compressed(Box<zstd::stream::read::Decoder<'static, Cursor<Bytes>>>),
    Plain(Cursor<Bytes>),
}

impl TreeSource {
    fn new(content: Bytes, is_compressed: bool) -> io::Result<Self> {
        let content = Cursor::new(content);
        if is_compressed {
            return Ok(Self::Compressed(Box::new(zstd::stream::read::Decoder::with_buffer(content)?)));
        }
        Ok(Self::Plain(content))
    }
}

impl Read for TreeSource {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Compressed(decoder) => decoder.read(room),
            Self::Plain(content) => content.read(room),
        }
    }
}

impl std::fmt::Debug for TreeSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TreeSource")
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::blobs::MAX_BLOB;
    use crate::node::TreeBuilder;
    use crate::saver::Saver;
    use crate::testing::{memory_repository, save_snapshot};

    fn named(name: &[u8]) -> Node {
        Node { name: name.to_vec(), ..Node::default() }
    }

    /// Stores a tree with two nodes and very many blanks between them.
    fn save_larger_than_a_gibibyte(saver: &Saver) -> BlobId {
        let mut tree = saver.begin_large_tree().unwrap().unwrap();
        let mut builder = TreeBuilder::default();
        builder.add(&named(b"first")).unwrap();
        tree.push(builder.written().as_bytes()).unwrap();
        builder.forget_written();
        let blanks = vec![b' '; 1 << 20];
        (0..MAX_BLOB >> 20).for_each(|_| tree.push(&blanks).unwrap());
        builder.add(&named(b"second")).unwrap();
        tree.push(&builder.finish()).unwrap();
        saver.save_large_tree(tree).unwrap().id
    }

    #[tokio::test]
    async fn a_tree_of_more_than_a_gibibyte_is_stored_and_read_as_a_stream() {
        let repository = memory_repository().await;
        let index = Arc::new(repository.load_index().await.unwrap());
        let saver = Arc::new(Saver::start(&repository, index, None, CancellationToken::new()));
        let worker = Arc::clone(&saver);
        let id = tokio::task::spawn_blocking(move || save_larger_than_a_gibibyte(&worker)).await.unwrap();
        Arc::into_inner(saver).unwrap().finish().await.unwrap();
        let reader = BlobReader::new(&repository, Arc::new(repository.load_index().await.unwrap()));
        assert!(reader.load_tree(&id).await.is_err(), "not in memory");
        let mut nodes = reader.nodes_as_stored(&id).await.unwrap();
        assert_eq!(nodes.next().unwrap().unwrap().name, b"first");
    }

    #[tokio::test]
    async fn a_stream_has_the_nodes_of_the_tree_and_is_refused_if_the_hash_differs() {
        let repository = memory_repository().await;
        let files: Vec<(String, Vec<u8>)> =
            (0..500).map(|number| (format!("{number:04}"), vec![7; number])).collect();
        let files: Vec<(&str, &[u8])> =
            files.iter().map(|(name, content)| (name.as_str(), content.as_slice())).collect();
        let (_, snapshot) = save_snapshot(&repository, 1, &files).await;
        let reader = BlobReader::new(&repository, Arc::new(repository.load_index().await.unwrap()));
        let whole = reader.load_tree(&snapshot.tree).await.unwrap();
        let mut nodes = reader.streamed(&snapshot.tree, 1).await.unwrap().unwrap();
        assert!(matches!(nodes, Nodes::Streamed(..)));
        for node in &whole {
            assert_eq!(nodes.next().unwrap().as_ref(), Some(node));
        }
        assert!(nodes.next().unwrap().is_none());

        let entry = reader.index().find_all(BlobKind::Tree, &snapshot.tree).unwrap()[0];
        let wrong = Entry { id: BlobId(crate::id::Id::of(b"another")), ..entry };
        let error = reader.source(&wrong).await.unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
        let mut short = entry;
        short.location.uncompressed_length -= 1;
        let error = reader.source(&short).await.unwrap_err().to_string();
        assert!(error.contains("longer than its index says"), "{error}");
    }
}
