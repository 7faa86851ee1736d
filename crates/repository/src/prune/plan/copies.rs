//! The copies of blobs that the index names, as a stream that can be read several times.

use crate::error::Result;
use crate::id::{BlobId, BlobKind, PackId};

/// One copy of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobCopy {
    pub kind: BlobKind,
    pub id: BlobId,
    pub pack: PackId,
    pub offset: u32,
    /// In the pack: sealed, and compressed when `compressed`.
    pub length: u32,
    pub compressed: bool,
}

/// Every copy of every blob that the index names.
pub trait Copies {
    /// Visits all, with numbers from 0 up: always in the same order, all copies of one blob next to each other.
    fn for_each(&self, visit: &mut dyn FnMut(u64, &BlobCopy) -> Result<()>) -> Result<()>;
}

/// For what is small enough to be held.
impl Copies for [BlobCopy] {
    fn for_each(&self, visit: &mut dyn FnMut(u64, &BlobCopy) -> Result<()>) -> Result<()> {
        (0..).zip(self).try_for_each(|(number, copy)| visit(number, copy))
    }
}

/// Takes the numbers of all entries of a blob, and its copies with theirs.
type VisitBlob<'a> = dyn FnMut(&[u64], &[(u64, BlobCopy)]) -> Result<()> + 'a;

/// Calls `visit` once for each blob with all its copies. Copies that are the very same place (two index files name
/// the pack, which an interrupted prune leaves behind) are given once.
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
