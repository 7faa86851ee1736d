//! A pack: sealed blobs one after the other, then the sealed header that lists them, then the header's length.
//! `Builder` makes one, `parse_header` reads the end of one.

use crate::crypto::{Key, OVERHEAD};
use crate::error::{Error, Result};
use crate::id::{BlobId, BlobKind, Id, PackId};

/// A blob in a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackedBlob {
    pub kind: BlobKind,
    pub id: BlobId,
    pub offset: u32,
    /// The sealed length.
    pub length: u32,
    /// 0 if the blob is not compressed.
    pub uncompressed_length: u32,
}

impl PackedBlob {
    /// The length of the blob's plain content.
    pub fn plain_length(&self) -> u32 {
        plain_length(self.length, self.uncompressed_length)
    }
}

/// The length of a blob's plain content, from the fields of an index or header.
pub(crate) fn plain_length(length: u32, uncompressed_length: u32) -> u32 {
    match uncompressed_length {
        0 => length.saturating_sub(OVERHEAD_U32),
        length => length,
    }
}

const OVERHEAD_U32: u32 = 32;
const PLAIN_ENTRY: usize = 1 + 4 + 32;
const COMPRESSED_ENTRY: usize = PLAIN_ENTRY + 4;
const LENGTH_FIELD: usize = 4;
/// The largest header (as in restic).
pub const MAX_HEADER: usize = 16 * 1024 * 1024;

/// A pack with this many blobs is full, however small it is: an index file contains whole packs, and its readers need
/// memory for all of it.
const MANY_BLOBS: usize = 50_000;
const _: () = assert!(OVERHEAD + LENGTH_FIELD + MANY_BLOBS * COMPRESSED_ENTRY <= MAX_HEADER);

/// What one blob adds to the size of a pack's header.
pub fn header_entry_length(compressed: bool) -> u32 {
    if compressed { 41 } else { 37 }
}

/// The size of a pack besides its blobs and their header entries.
pub const HEADER_OVERHEAD: u32 = OVERHEAD_U32 + 4;

/// A pack in progress.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    content: Vec<u8>,
    blobs: Vec<PackedBlob>,
}

/// A complete pack.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) id: PackId,
    pub(crate) content: Vec<u8>,
    pub(crate) blobs: Vec<PackedBlob>,
}

impl Builder {
    /// Uses an empty buffer with enough capacity, so that it is never reallocated.
    pub(crate) fn into_buffer(content: Vec<u8>) -> Self {
        Self { content, blobs: Vec::new() }
    }

    /// A pack of one sealed blob, which is not copied.
    pub(crate) fn of_blob(
        kind: BlobKind,
        id: BlobId,
        sealed: Vec<u8>,
        uncompressed_length: u32,
    ) -> Result<Self> {
        let length = u32::try_from(sealed.len());
        let length = length.map_err(|_| Error::invalid("pack", "it would be larger than 4 GiB"))?;
        let blobs = vec![PackedBlob { kind, id, offset: 0, length, uncompressed_length }];
        Ok(Self { content: sealed, blobs })
    }

    /// Adds a sealed blob. Packs are far smaller than 4 GiB, so offsets always fit.
    pub(crate) fn add(
        &mut self,
        kind: BlobKind,
        id: BlobId,
        sealed: &[u8],
        uncompressed_length: u32,
    ) -> Result<()> {
        let number = |length: usize| {
            u32::try_from(length).map_err(|_| Error::invalid("pack", "it would be larger than 4 GiB"))
        };
        let (offset, length) = (number(self.content.len())?, number(sealed.len())?);
        self.content.extend_from_slice(sealed);
        self.blobs.push(PackedBlob { kind, id, offset, length, uncompressed_length });
        Ok(())
    }

    pub(crate) fn size(&self) -> usize {
        self.content.len()
    }

    /// Whether it should get no more blobs, whatever its size.
    pub(crate) fn has_many_blobs(&self) -> bool {
        self.blobs.len() >= MANY_BLOBS
    }

    /// Appends the header, reads it back to verify it, and computes the pack's ID.
    pub(crate) fn finish(mut self, key: &Key) -> Result<Finished> {
        let start = Key::begin(&mut self.content);
        for blob in &self.blobs {
            let compressed = blob.uncompressed_length != 0;
            let kind = u8::from(blob.kind == BlobKind::Tree) + 2 * u8::from(compressed);
            self.content.push(kind);
            self.content.extend_from_slice(&blob.length.to_le_bytes());
            if compressed {
                self.content.extend_from_slice(&blob.uncompressed_length.to_le_bytes());
            }
            self.content.extend_from_slice(&blob.id.0.0);
        }
        key.seal(&mut self.content, start);
        let length = u32::try_from(self.content.len() - start);
        let length = length.map_err(|_| Error::invalid("pack", "its header is larger than 4 GiB"))?;
        self.content.extend_from_slice(&length.to_le_bytes());
        let mut header = self.content[start..self.content.len() - LENGTH_FIELD].to_vec();
        if parse_header(key, &mut header, start as u64)? != self.blobs {
            return Err(Error::damaged("a new pack", "its header cannot be read back (faulty memory?)"));
        }
        Ok(Finished { id: PackId(Id::of(&self.content)), content: self.content, blobs: self.blobs })
    }
}

/// The length of the sealed header at the end of a pack of `size` bytes, given the last four bytes.
pub(crate) fn header_length(last_four: [u8; 4], size: u64) -> Result<u32> {
    let length = u32::from_le_bytes(last_four);
    let damaged = |detail: String| Err(Error::damaged("a pack", detail));
    let least = OVERHEAD_U32 + 37;
    if length < least {
        return damaged(format!("its header has the impossible length of {length} bytes"));
    }
    if u64::from(length) + 4 > size || length as usize > MAX_HEADER {
        return damaged(format!(
            "its header has the impossible length of {length} of the pack's {size} bytes"
        ));
    }
    Ok(length)
}

/// Parses a sealed header; the blobs must fill the `before` bytes in front of it exactly.
pub(crate) fn parse_header(key: &Key, sealed: &mut [u8], before: u64) -> Result<Vec<PackedBlob>> {
    let damaged = |detail: &str| Error::damaged("the header of a pack", detail);
    let mut rest: &[u8] = key.open(sealed).map_err(|error| damaged(&error.to_string()))?;
    let mut blobs = Vec::with_capacity(rest.len() / PLAIN_ENTRY);
    let mut offset = 0_u32;
    while let Some((kind, _)) = rest.split_first() {
        let (kind, compressed) = match kind {
            0 => (BlobKind::Data, false),
            1 => (BlobKind::Tree, false),
            2 => (BlobKind::Data, true),
            3 => (BlobKind::Tree, true),
            _ => return Err(damaged("it contains an unknown kind of blob")),
        };
        let size = if compressed { COMPRESSED_ENTRY } else { PLAIN_ENTRY };
        let (entry, further) =
            rest.split_at_checked(size).ok_or_else(|| damaged("it ends within an entry"))?;
        rest = further;
        let number = |at: usize| u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]]);
        let length = number(1);
        let uncompressed_length = if compressed { number(5) } else { 0 };
        let mut id = [0; 32];
        id.copy_from_slice(&entry[size - 32..]);
        if length < OVERHEAD_U32 || (compressed && uncompressed_length == 0) {
            return Err(damaged("it contains a blob without content"));
        }
        blobs.push(PackedBlob { kind, id: BlobId(Id(id)), offset, length, uncompressed_length });
        offset = offset.checked_add(length).ok_or_else(|| damaged("its blobs are larger than 4 GiB"))?;
    }
    if u64::from(offset) != before {
        return Err(damaged("its blobs do not fill the pack"));
    }
    Ok(blobs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::Material;
    use proptest::prelude::*;

    fn split(key: &Key, pack: &Finished) -> Result<Vec<PackedBlob>> {
        let size = pack.content.len();
        let length = header_length(pack.content[size - 4..].try_into().unwrap(), size as u64)? as usize;
        let before = size - 4 - length;
        parse_header(key, &mut pack.content[before..size - 4].to_vec(), before as u64)
    }

    #[test]
    fn a_pack_lists_its_blobs() {
        let key = Key::new(Material::random());
        let mut builder = Builder::default();
        builder.add(BlobKind::Data, BlobId(Id::of(b"a")), &key.sealed(b"a"), 0).unwrap();
        builder.add(BlobKind::Tree, BlobId(Id::of(b"b")), &key.sealed(b"compressed"), 99).unwrap();
        let pack = builder.finish(&key).unwrap();
        assert_eq!(pack.id.0, Id::of(&pack.content));
        assert_eq!(split(&key, &pack).unwrap(), pack.blobs);
        assert_eq!(pack.blobs[1].offset, 33);
        assert_eq!(pack.blobs[1].plain_length(), 99);
        assert_eq!(pack.blobs[0].plain_length(), 1);
        assert!(parse_header(&Key::new(Material::random()), &mut pack.content[75..].to_vec(), 75).is_err());
    }

    proptest! {
        #[test]
        fn headers_that_say_anything_are_read_without_harm(plain: Vec<u8>, before: u64) {
            let key = Key::new(Material::random());
            let _ = parse_header(&key, &mut key.sealed(&plain), before);
        }
    }
}
