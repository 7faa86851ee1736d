//! Reads blobs from the packs that the index names, decrypts and decompresses them and checks them against their IDs.
//! If a copy is damaged, the next one is used. Trees are read in segments of their packs, which are cached for a
//! while: the directories of a snapshot are adjacent, and a remote store costs a round trip for each request.

pub(crate) mod nodes;
pub(crate) mod sealed;
mod segments;

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Semaphore;

use crate::compress;
use crate::config::Version;
use crate::crypto::Key;
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::{BlobId, BlobKind, Id};
use crate::index::{Entry, Index, Location};
use crate::node::{self, Node};
use crate::repository::Repository;
use segments::Segments;

/// The largest blob that is decoded in memory: files are split into chunks of at most 8 MiB, and a directory of a million
/// entries has some hundred MiB. Compressed trees may be larger, because they are read as streams.
pub const MAX_BLOB: u32 = 1 << 30;

/// Reads blobs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct BlobReader {
    repository: Repository,
    index: Arc<Index>,
    segments: Arc<Segments>,
    /// One permit for each large tree that concurrent visits may have in memory.
    large: Arc<Semaphore>,
}

impl BlobReader {
    pub fn new(repository: &Repository, index: Arc<Index>) -> Self {
        Self {
            repository: repository.clone(),
            index,
            segments: Arc::new(Segments::default()),
            large: Arc::new(Semaphore::new(1)),
        }
    }

    pub fn index(&self) -> &Arc<Index> {
        &self.index
    }

    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// A blob's content, from the first intact copy.
    pub async fn load(&self, kind: BlobKind, id: &BlobId) -> Result<Bytes> {
        let copies = self.index.find_all(kind, id)?;
        let mut problem = Error::MissingBlob { kind, id: *id };
        for entry in copies {
            match self.load_copy(&entry).await {
                Ok(plain) => return Ok(plain),
                Err(error) => {
                    tracing::debug!(%kind, blob = %id, pack = %entry.location.pack, %error, "a copy of a blob cannot be read");
                    problem = error;
                }
            }
        }
        Err(problem)
    }

    /// The entries of a directory.
    pub async fn load_tree(&self, id: &BlobId) -> Result<Vec<Node>> {
        let json = self.load(BlobKind::Tree, id).await?;
        let mut nodes = Vec::new();
        let parsed = node::parse_tree(&json, &mut |node| {
            nodes.push(node);
            Ok(())
        });
        parsed.map_err(|error| match error {
            Error::Damaged { detail, what } => {
                Error::damaged(format!("tree {}", id.short()), format!("{what}: {detail}"))
            }
            other => other,
        })?;
        Ok(nodes)
    }

    /// A blob that cannot be decoded is read once more, exactly and from the store: the network or the cached segment
    /// may have been at fault.
    async fn load_copy(&self, entry: &Entry) -> Result<Bytes> {
        let sealed = match entry.kind {
            BlobKind::Tree => self.segments.read(&self.repository, &self.index, entry).await?,
            BlobKind::Data => self.read_range(&entry.location).await?,
        };
        if let Ok(plain) = self.open(entry, sealed) {
            return Ok(plain);
        }
        let plain = self.open(entry, self.read_range(&entry.location).await?)?;
        tracing::debug!(blob = %entry.id, pack = %entry.location.pack, "a blob was read successfully at the second attempt");
        if entry.kind == BlobKind::Tree {
            self.segments.forget(&self.repository, entry).await;
        }
        Ok(plain)
    }

    fn open(&self, entry: &Entry, sealed: Bytes) -> Result<Bytes> {
        let mut plain = Vec::new();
        self.decode(entry.kind, &entry.id, &entry.location, &mut Vec::from(sealed), &mut plain)?;
        Ok(plain.into())
    }

    async fn read_range(&self, location: &Location) -> Result<Bytes> {
        let range = u64::from(location.offset)..location.end();
        let action = Error::store(format!("read pack {}", location.pack.short()));
        self.repository.store().get_range(&FileKind::Pack.key(location.pack.0), range).await.map_err(action)
    }

    /// Decodes a blob whose sealed bytes the caller has read and appends it to `out`. CPU work only.
    pub fn decode(
        &self,
        kind: BlobKind,
        id: &BlobId,
        location: &Location,
        sealed: &mut [u8],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        decode(self.repository.key(), self.repository.config().version, kind, id, location, sealed, out)
    }
}

/// Decrypts in place, decompresses and checks the hash; appends to `out`, which is unchanged on failure.
pub(crate) fn decode(
    key: &Key,
    version: Version,
    kind: BlobKind,
    id: &BlobId,
    location: &Location,
    sealed: &mut [u8],
    out: &mut Vec<u8>,
) -> Result<()> {
    let damaged = |detail: &dyn std::fmt::Display| {
        Error::damaged(format!("{kind} blob {} in pack {}", id.short(), location.pack.short()), detail)
    };
    let before = out.len();
    let plain = key.open(sealed).map_err(|error| damaged(&error))?;
    if location.uncompressed_length == 0 {
        out.extend_from_slice(plain);
    } else {
        if location.uncompressed_length > MAX_BLOB || version == Version::V1 {
            return Err(damaged(&format!(
                "a compressed blob cannot have {} bytes",
                location.uncompressed_length
            )));
        }
        let outcome = compress::decompress(plain, location.uncompressed_length as usize, out);
        if let Err(error) = outcome {
            out.truncate(before);
            return Err(damaged(&error));
        }
    }
    if Id::of(&out[before..]) != id.0 {
        out.truncate(before);
        return Err(damaged(&"its content does not match its ID"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use lifeboat_store::Memory;

    use super::*;
    use crate::repository::Options;
    use crate::testing::unreliable::{Fault, Unreliable, store};
    use crate::testing::{new_repository, password, save_snapshot};

    #[rstest::rstest]
    #[case(BlobKind::Tree)]
    #[case(BlobKind::Data)]
    #[tokio::test]
    async fn what_was_read_wrong_once_is_read_again_and_not_kept(#[case] kind: BlobKind) {
        let memory = Arc::new(Memory::new());
        let whole = store(Arc::clone(&memory) as _);
        let repository = new_repository(whole.clone(), Version::V2).await;
        let (_, snapshot) = save_snapshot(&repository, 1, &[("a", b"content")]).await;
        let unreliable = Unreliable::new(&memory, Fault::Flip { read: 1 });
        let cache = tempfile::tempdir().unwrap();
        let options = Options { cache: Some(cache.path().to_owned()), ..Options::default() };
        let repository = Repository::open(unreliable.store(), &password(), options).await.unwrap();
        let reader = BlobReader::new(&repository, Arc::new(repository.load_index().await.unwrap()));
        let id = if kind == BlobKind::Tree { snapshot.tree } else { BlobId(Id::of(b"content")) };
        for _ in 0..2 {
            assert_eq!(Id::of(&reader.load(kind, &id).await.unwrap()), id.0);
        }
        assert!(unreliable.happened());
        let pack = reader.index().find(kind, &id).unwrap().unwrap().pack;
        let content = whole.get(&FileKind::Pack.key(pack.0)).await.unwrap();
        let segments = cache.path().join(&repository.config().id).join("trees");
        for file in std::fs::read_dir(segments).unwrap() {
            let kept = std::fs::read(file.unwrap().path()).unwrap();
            assert!(content.starts_with(&kept[..kept.len() - 32]), "the cache contains wrong bytes");
        }
    }

    #[tokio::test]
    async fn what_is_damaged_in_the_store_stays_damaged() {
        let repository = new_repository(lifeboat_store::Store::memory(), Version::V2).await;
        let (_, snapshot) = save_snapshot(&repository, 1, &[("a", b"content")]).await;
        let reader = BlobReader::new(&repository, Arc::new(repository.load_index().await.unwrap()));
        let pack = reader.index().find(BlobKind::Tree, &snapshot.tree).unwrap().unwrap().pack;
        let key = FileKind::Pack.key(pack.0);
        let mut content = repository.store().get(&key).await.unwrap().to_vec();
        content[20] ^= 1;
        repository.store().put(&key, content).await.unwrap();
        let error = reader.load_tree(&snapshot.tree).await.unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
    }
}
