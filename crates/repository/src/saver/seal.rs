//! Compresses and seals a blob, and checks that it can be read back. Called by `Saver` on the caller's thread.

use std::cell::RefCell;

use super::Saver;
use crate::compress::{self, Compression};
use crate::config::Version;
use crate::crypto::{Key, NotAuthentic, OVERHEAD};
use crate::error::{Error, Result};
use crate::id::{BlobId, BlobKind, Hasher, Id};

thread_local! {
    static BUFFERS: RefCell<Buffers> = RefCell::new(Buffers::new());
}

impl Saver {
    pub(super) fn seal_and_pack(&self, kind: BlobKind, id: BlobId, plain: &[u8]) -> Result<u64> {
        BUFFERS.with_borrow_mut(|buffers| {
            let uncompressed_length = self.seal(kind, id, plain, buffers)?;
            self.pack(kind, id, &buffers.sealed, uncompressed_length)?;
            let length = buffers.sealed.len();
            buffers.shrink();
            Ok(length as u64)
        })
    }

    /// Compresses and seals, and reads both back (restic#4529): opening the sealed blob gives the compressed one, and
    /// decompressing that gives content with this ID. The content is hashed again because a bit of `plain` may have
    /// flipped since its ID was made.
    fn seal(&self, kind: BlobKind, id: BlobId, plain: &[u8], buffers: &mut Buffers) -> Result<u32> {
        let repository = &self.shared.repository;
        let length = u32::try_from(plain.len()).ok().filter(|length| *length <= crate::blobs::MAX_BLOB);
        let length =
            length.ok_or_else(|| Error::invalid(format!("{kind} blob"), "it is larger than 1 GiB"))?;
        let compression = repository.options().compression;
        let compressed = repository.config().version == Version::V2
            && length > 0
            && (compression != Compression::Off || kind == BlobKind::Tree);
        let misread = || {
            let detail =
                "it could not be read back, so it was not stored: check this machine for faulty memory";
            Error::damaged(format!("new {kind} blob {}", id.short()), detail)
        };
        let Buffers { packed, sealed } = buffers;
        let body = if compressed {
            let failed = |source| Error::Local { action: "compress a blob".to_owned(), source };
            packed.clear();
            compress::compress(plain, compression, packed).map_err(failed)?;
            sealed.clear();
            compress::decompress(packed, plain.len(), sealed).map_err(|_| misread())?;
            if Id::of(sealed) != id.0 {
                return Err(misread());
            }
            packed
        } else {
            plain
        };
        sealed.clear();
        let start = Key::begin(sealed);
        sealed.extend_from_slice(body);
        repository.key().seal(sealed, start);
        let is_readable = if compressed {
            opens_as(repository.key(), sealed, body)
        } else {
            opens_to(repository.key(), sealed, id)
        };
        if !is_readable {
            return Err(misread());
        }
        Ok(if compressed { length } else { 0 })
    }
}

/// Whether the sealed message contains exactly `body`.
fn opens_as(key: &Key, sealed: &[u8], body: &[u8]) -> bool {
    let mut rest = body;
    let compare = |piece: &[u8]| match rest.split_off(..piece.len()) {
        Some(expected) if expected == piece => Ok(()),
        _ => Err(NotAuthentic),
    };
    key.open_in_pieces(sealed, compare).is_ok() && rest.is_empty()
}

/// Whether the content of the sealed message has this ID.
fn opens_to(key: &Key, sealed: &[u8], id: BlobId) -> bool {
    let mut hasher = Hasher::new();
    let hash = |piece: &[u8]| {
        hasher.update(piece);
        Ok::<_, NotAuthentic>(())
    };
    key.open_in_pieces(sealed, hash).is_ok() && hasher.finish() == id.0
}

/// The buffers of a thread, reused from blob to blob. Both have capacity for any chunk of a file from the start:
/// untouched memory costs nothing.
#[derive(Debug)]
struct Buffers {
    packed: Vec<u8>,
    /// First used for reading back the compressed blob.
    sealed: Vec<u8>,
}

impl Buffers {
    /// For the largest chunk, if it does not compress.
    const KEPT: usize = crate::chunker::MAX_SIZE + crate::chunker::MAX_SIZE / 128 + OVERHEAD;

    fn new() -> Self {
        Self { packed: Vec::with_capacity(Self::KEPT), sealed: Vec::with_capacity(Self::KEPT) }
    }

    /// Frees the memory of a very large blob.
    fn shrink(&mut self) {
        if self.packed.capacity().max(self.sealed.capacity()) > Self::KEPT {
            *self = Self::new();
        }
    }
}
