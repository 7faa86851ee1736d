//! The chunks of a device in the order of the device, grouped into batches that are read at once: chunks that are
//! adjacent in one pack, as those that were backed up together. Chunks of zeros are not read.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::blobs::BlobReader;
use crate::chunker::length_of_zeros;
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::{BlobId, BlobKind, PackId};
use crate::index::Location;
use crate::node::Node;

const GAP: u64 = 256 * 1024;
const LONGEST_READ: u64 = 4 * 1024 * 1024;
const MOST_PLAIN: u64 = 8 * 1024 * 1024;
/// Zeros cost nothing, but progress is reported once per batch.
const MOST_PIECES: usize = 256;

/// A blob and its offset on the device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) id: BlobId,
    pub(super) location: Location,
    pub(super) at: u64,
}

/// The offset of each chunk; fails unless they add up to the file's size.
pub(super) fn locate(reader: &BlobReader, path: &Path, node: &Node) -> Result<Vec<Piece>> {
    let mut pieces = Vec::with_capacity(node.blobs().len());
    let mut at = 0_u64;
    for id in node.blobs() {
        let found = reader.index().find(BlobKind::Data, id)?;
        let location = found.ok_or(Error::MissingBlob { kind: BlobKind::Data, id: *id })?;
        pieces.push(Piece { id: *id, location, at });
        at = at.saturating_add(location.plain_length().into());
    }
    if at == node.size {
        return Ok(pieces);
    }
    let detail = format!("its size in the snapshot is {} bytes, but its content has {at}", node.size);
    Err(Error::damaged(format!("file '{}'", path.display()), detail))
}

/// Chunks that are read at once.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) pieces: Vec<Piece>,
    pack: Option<PackId>,
    start: u64,
    end: u64,
    plain: u64,
}

impl Batch {
    /// The object and the byte range to read; None if there are only zeros.
    pub(super) fn range(&self) -> Option<(String, Range<u64>)> {
        self.pack.map(|pack| (FileKind::Pack.key(pack.0), self.start..self.end))
    }

    /// The bytes of one chunk in the data that was read.
    pub(super) fn part<'a>(&self, read: &'a [u8], piece: &Piece) -> Option<&'a [u8]> {
        let from = usize::try_from(u64::from(piece.location.offset).checked_sub(self.start)?).ok()?;
        read.get(from..from.checked_add(piece.location.length as usize)?)
    }

    fn takes(&self, piece: &Piece) -> bool {
        if self.pieces.len() >= MOST_PIECES {
            return false;
        }
        let location = &piece.location;
        let start = u64::from(location.offset);
        length_of_zeros(&piece.id).is_some()
            || self.pack.is_none_or(|pack| {
                pack == location.pack
                    && start >= self.start
                    && start <= self.end + GAP
                    && location.end().max(self.end) - self.start <= LONGEST_READ
                    && self.plain + u64::from(location.plain_length()) <= MOST_PLAIN
            })
    }

    fn add(&mut self, piece: Piece) {
        if length_of_zeros(&piece.id).is_none() {
            if self.pack.is_none() {
                (self.pack, self.start) = (Some(piece.location.pack), piece.location.offset.into());
            }
            self.end = self.end.max(piece.location.end());
            self.plain += u64::from(piece.location.plain_length());
        }
        self.pieces.push(piece);
    }
}

/// The batches, made on demand.
pub(super) struct Batches {
    pieces: Arc<Vec<Piece>>,
    next: usize,
}

impl Batches {
    pub(super) fn new(pieces: Arc<Vec<Piece>>) -> Self {
        Self { pieces, next: 0 }
    }
}

impl Iterator for Batches {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        let mut batch = Batch::default();
        while let Some(piece) = self.pieces.get(self.next).filter(|piece| batch.takes(piece)) {
            batch.add(*piece);
            self.next += 1;
        }
        (!batch.pieces.is_empty()).then_some(batch)
    }
}
