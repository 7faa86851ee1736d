//! The index: which pack contains which blob. Loaded from all index files of a repository into one sorted table of 48
//! bytes per blob; a large table is in an unlinked temporary file that is read through the page cache, so that twenty
//! million blobs need no memory of this process.

mod file;
mod load;
pub(crate) mod table;

pub use file::{IndexFile, IndexedPack};
pub(crate) use table::Record;

use std::collections::HashMap;

use crate::error::Result;
use crate::id::{BlobId, BlobKind, IndexId, PackId};
use crate::pack;
use table::Table;

/// The position of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    pub pack: PackId,
    pub offset: u32,
    /// The sealed length.
    pub length: u32,
    /// 0 if the blob is not compressed.
    pub uncompressed_length: u32,
}

impl Location {
    /// The length of the blob's plain content.
    pub fn plain_length(&self) -> u32 {
        pack::plain_length(self.length, self.uncompressed_length)
    }

    /// The offset after the blob in its pack.
    pub fn end(&self) -> u64 {
        u64::from(self.offset) + u64::from(self.length)
    }
}

/// One copy of a blob. `number` counts from 0 in the order of `Index::for_each`; it is used for bit sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    pub number: u64,
    pub kind: BlobKind,
    pub id: BlobId,
    pub location: Location,
    /// The pack's number, in the order of `Index::packs`.
    pub pack_number: u32,
}

/// The content of all index files of a repository.
#[derive(Debug, Default)]
pub struct Index {
    table: Table,
    packs: Vec<PackId>,
    /// For each pack, the end of its last blob.
    ends: Vec<u32>,
    files: Vec<IndexId>,
}

impl Index {
    /// The number of entries; a blob that is in several packs is counted several times.
    pub fn len(&self) -> u64 {
        self.table.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The packs that the index names, each once.
    pub fn packs(&self) -> &[PackId] {
        &self.packs
    }

    /// The index files that were read.
    pub fn files(&self) -> &[IndexId] {
        &self.files
    }

    pub fn has(&self, kind: BlobKind, id: &BlobId) -> Result<bool> {
        Ok(self.find(kind, id)?.is_some())
    }

    /// The first copy of a blob.
    pub fn find(&self, kind: BlobKind, id: &BlobId) -> Result<Option<Location>> {
        Ok(self.find_all(kind, id)?.first().map(|entry| entry.location))
    }

    /// Every copy of a blob.
    pub fn find_all(&self, kind: BlobKind, id: &BlobId) -> Result<Vec<Entry>> {
        let (first, records) = self.table.find(id)?;
        let entries = (first..).zip(&records).map(|(number, record)| self.entry(number, record));
        Ok(entries.filter(|entry| entry.kind == kind).collect())
    }

    /// All entries, sorted by blob.
    pub fn for_each(&self, each: &mut dyn FnMut(Entry) -> Result<()>) -> Result<()> {
        let mut number = 0;
        self.table.for_each(&mut |record| {
            let entry = self.entry(number, record);
            number += 1;
            each(entry)
        })
    }

    /// The end of the last blob of the pack with this number: up to there, the pack can be read without knowing its
    /// size.
    pub fn pack_end(&self, pack_number: u32) -> u64 {
        self.ends.get(pack_number as usize).copied().unwrap_or_default().into()
    }

    fn entry(&self, number: u64, record: &Record) -> Entry {
        let (kind, pack_number) = record.kind_and_pack();
        let location = Location {
            pack: self.packs[pack_number as usize],
            offset: record.offset(),
            length: record.length(),
            uncompressed_length: record.uncompressed_length(),
        };
        Entry { number, kind, id: record.id(), location, pack_number }
    }
}

/// Assigns numbers to packs.
#[derive(Debug, Default)]
pub(crate) struct PackNumbers {
    packs: Vec<PackId>,
    ends: Vec<u32>,
    numbers: HashMap<PackId, u32>,
}

impl PackNumbers {
    pub(crate) fn number(&mut self, pack: PackId) -> u32 {
        *self.numbers.entry(pack).or_insert_with(|| {
            self.packs.push(pack);
            self.ends.push(0);
            // 2^31 packs would be as many objects in the store; the loader stops far earlier.
            u32::try_from(self.packs.len() - 1).unwrap_or(u32::MAX)
        })
    }
}
