//! The nodes of a directory, one at a time. The tree of a large directory stays compressed in memory and is
//! decompressed as its nodes are taken; its hash is checked at its end.

use std::io::{self, Cursor, Read};

use super::{BlobReader, MAX_BLOB};
use crate::config::Version;
use crate::crypto::OVERHEAD;
use crate::error::{Error, Result};
use crate::id::{BlobId, BlobKind, Hasher};
use crate::index::Entry;
use crate::node::Node;
use crate::node::stream::NodeStream;

/// Smaller trees are parsed as a whole.
const LARGE: u32 = 4 << 20;

/// The nodes of one directory.
pub(crate) enum Nodes {
    /// Sorted by name.
    Parsed(std::vec::IntoIter<Node>),
    /// In the order of the tree, which a foreign program may not have sorted.
    Streamed(Box<NodeStream<Checked>>),
}

impl Nodes {
    pub(crate) fn next(&mut self) -> Result<Option<Node>> {
        match self {
            Self::Parsed(nodes) => Ok(nodes.next()),
            Self::Streamed(nodes) => nodes.next(),
        }
    }
}

impl BlobReader {
    /// The nodes of a directory.
    pub(crate) async fn nodes(&self, id: &BlobId) -> Result<Nodes> {
        self.nodes_from(id, LARGE).await
    }

    async fn nodes_from(&self, id: &BlobId, large: u32) -> Result<Nodes> {
        let copies = self.index().find_all(BlobKind::Tree, id)?;
        let is_large = copies.first().is_some_and(|copy| copy.location.uncompressed_length >= large);
        if is_large && self.repository().config().version != Version::V1 {
            for copy in copies {
                match self.stream(&copy).await {
                    Ok(nodes) => return Ok(Nodes::Streamed(Box::new(nodes))),
                    Err(error) => {
                        tracing::debug!(tree = %id, pack = %copy.location.pack, %error, "a copy of a tree cannot be read");
                    }
                }
            }
        }
        // Also reports why no copy could be read.
        let mut nodes = self.load_tree(id).await?;
        nodes.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(Nodes::Parsed(nodes.into_iter()))
    }

    async fn stream(&self, entry: &Entry) -> Result<NodeStream<Checked>> {
        let length = entry.location.uncompressed_length;
        let damaged =
            |detail: &dyn std::fmt::Display| Error::damaged(format!("tree {}", entry.id.short()), detail);
        if length > MAX_BLOB || length == 0 {
            return Err(damaged(&format!("a compressed tree cannot have {length} bytes")));
        }
        let mut sealed = Vec::from(self.read_range(&entry.location).await?);
        let plain = self.repository().key().open(&mut sealed).map_err(|error| damaged(&error))?.len();
        // The nonce is before the plain text, and the tag after it.
        let start = (sealed.len() - plain).min(OVERHEAD / 2);
        sealed.truncate(start + plain);
        let mut compressed = Cursor::new(sealed);
        compressed.set_position(start as u64);
        let decoder =
            zstd::stream::read::Decoder::with_buffer(compressed).map_err(|error| damaged(&error))?;
        Ok(NodeStream::new(Checked {
            decoder,
            hasher: Some(Hasher::new()),
            id: entry.id,
            left: length.into(),
        }))
    }
}

/// Decompresses and hashes; the end is an error unless length and hash are those of the blob.
pub(crate) struct Checked {
    decoder: zstd::stream::read::Decoder<'static, Cursor<Vec<u8>>>,
    /// Taken at the end.
    hasher: Option<Hasher>,
    id: BlobId,
    left: u64,
}

impl Read for Checked {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let Some(hasher) = &mut self.hasher else { return Ok(0) };
        let count = self.decoder.read(room)?;
        if count > 0 {
            hasher.update(&room[..count]);
            let left = self.left.checked_sub(count as u64);
            self.left = left.ok_or_else(|| io::Error::other("it is longer than its index says"))?;
            return Ok(count);
        }
        let hash = self.hasher.take().map(Hasher::finish);
        if self.left > 0 || hash != Some(self.id.0) {
            return Err(io::Error::other("its content does not match its ID"));
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::testing::{memory_repository, save_snapshot};

    #[tokio::test]
    async fn a_stream_has_the_nodes_of_the_tree_and_ends_with_an_error_if_the_hash_differs() {
        let repository = memory_repository().await;
        let files: Vec<(String, Vec<u8>)> =
            (0..500).map(|number| (format!("{number:04}"), vec![7; number])).collect();
        let files: Vec<(&str, &[u8])> =
            files.iter().map(|(name, content)| (name.as_str(), content.as_slice())).collect();
        let (_, snapshot) = save_snapshot(&repository, 1, &files).await;
        let reader = BlobReader::new(&repository, Arc::new(repository.load_index().await.unwrap()));
        let whole = reader.load_tree(&snapshot.tree).await.unwrap();
        let mut nodes = reader.nodes_from(&snapshot.tree, 1).await.unwrap();
        assert!(matches!(nodes, Nodes::Streamed(_)));
        for node in &whole {
            assert_eq!(nodes.next().unwrap().as_ref(), Some(node));
        }
        assert!(nodes.next().unwrap().is_none());

        let entry = reader.index().find_all(BlobKind::Tree, &snapshot.tree).unwrap()[0];
        let wrong = Entry { id: BlobId(crate::id::Id::of(b"another")), ..entry };
        let mut stream = reader.stream(&wrong).await.unwrap();
        let mut taken = 0;
        let end = loop {
            match stream.next() {
                Ok(Some(_)) => taken += 1,
                end => break end,
            }
        };
        assert!(matches!(end, Err(Error::Damaged { .. })), "{end:?}");
        assert_eq!(taken, whole.len());
    }
}
