//! The index as the stream of copies that a plan reads.

use super::plan::{BlobCopy, Copies};
use crate::error::Result;
use crate::index::Index;

/// All entries of an index, with their numbers.
pub(super) struct IndexCopies<'a>(pub(super) &'a Index);

impl Copies for IndexCopies<'_> {
    fn for_each(&self, visit: &mut dyn FnMut(u64, &BlobCopy) -> Result<()>) -> Result<()> {
        self.0.for_each(&mut |entry| {
            let copy = BlobCopy {
                kind: entry.kind,
                id: entry.id,
                pack: entry.location.pack,
                offset: entry.location.offset,
                length: entry.location.length,
                compressed: entry.location.uncompressed_length != 0,
            };
            visit(entry.number, &copy)
        })
    }
}
