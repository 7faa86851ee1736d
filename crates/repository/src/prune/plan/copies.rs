//! The copies of blobs in the index, as a stream that can be read several times.

use crate::error::Result;
use crate::id::{BlobId, BlobKind, PackId};

/// One copy of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobCopy {
    pub kind: BlobKind,
    pub id: BlobId,
    pub pack: PackId,
    pub offset: u32,
    /// The length in the pack: sealed, and compressed if `compressed`.
    pub length: u32,
    pub compressed: bool,
}

/// Every copy of every blob in the index.
pub trait Copies {
    /// Visits all copies, with numbers from 0: always in the same order, all copies of one blob adjacent.
    fn for_each(&self, visit: &mut dyn FnMut(u64, &BlobCopy) -> Result<()>) -> Result<()>;
}

/// For lists that are small enough to be held in memory.
impl Copies for [BlobCopy] {
    fn for_each(&self, visit: &mut dyn FnMut(u64, &BlobCopy) -> Result<()>) -> Result<()> {
        (0..).zip(self).try_for_each(|(number, copy)| visit(number, copy))
    }
}

/// Takes the numbers of all entries of a blob, and its copies with their numbers.
type VisitBlob<'a> = dyn FnMut(&[u64], &[(u64, BlobCopy)]) -> Result<()> + 'a;

/// Calls `visit` once for each blob with all its copies. Copies at the same position (two index files name the pack,
/// as after an interrupted prune) are passed once.
pub(super) fn for_each_blob(copies: &dyn Copies, visit: &mut VisitBlob<'_>) -> Result<()> {
    let mut numbers: Vec<u64> = Vec::new();
    let mut group: Vec<(u64, BlobCopy)> = Vec::new();
    let mut end = |numbers: &mut Vec<u64>, group: &mut Vec<(u64, BlobCopy)>| {
        group.sort_unstable_by_key(|(number, copy)| (copy.pack, copy.offset, *number));
        group.dedup_by_key(|(_, copy)| (copy.pack, copy.offset));
        let result = if group.is_empty() { Ok(()) } else { visit(numbers, group) };
        numbers.clear();
        group.clear();
        result
    };
    copies.for_each(&mut |number, copy| {
        if group.first().is_some_and(|(_, first)| (first.kind, first.id) != (copy.kind, copy.id)) {
            end(&mut numbers, &mut group)?;
        }
        numbers.push(number);
        group.push((number, *copy));
        Ok(())
    })?;
    end(&mut numbers, &mut group)
}
