//! The rows of the merged index in memory, for each length of hashes a type of its own.

use std::cmp::Ordering;

use super::{Location, Pack};

/// Rows that are kept unmerged at least.
const UNMERGED: usize = 64 * 1024;
const DELETED: u32 = 1 << 31;

/// The rows of an index. Between `push` and `merge` they are not sorted.
pub(super) trait Table: Send + Sync {
    fn push(&mut self, key: &[u8], location: &Location);
    /// Whether so many rows were added that duplicates may take half of the memory.
    fn wants_merge(&self) -> bool;
    /// Sorts, keeps one row for each key, and drops those that were deleted up to the watermark (0: none).
    fn merge(&mut self, packs: &[Pack], watermark: u64);
    fn find(&self, key: &[u8]) -> Option<Location>;
    /// The first row whose key starts with this letter or a later one.
    fn first_from(&self, prefix: u8) -> usize;
    fn len(&self) -> usize;
    fn key(&self, row: usize) -> &[u8];
    fn location(&self, row: usize) -> Location;
}

/// A table for hashes of a length.
pub(super) fn table(hash_length: usize) -> Box<dyn Table> {
    match hash_length {
        16 => Box::new(Rows::<17>::default()),
        28 => Box::new(Rows::<29>::default()),
        _ => Box::new(Rows::<33>::default()),
    }
}

/// All numbers are bytes, so that a row needs no padding.
#[derive(Clone, Copy)]
struct Row<const K: usize> {
    key: [u8; K],
    time: [u8; 6],
    pack: [u8; 4],
    /// With the highest bit for deleted contents.
    offset: [u8; 4],
    length: [u8; 4],
    original: [u8; 4],
    /// Known compressions have numbers of 16 bits.
    compression: [u8; 2],
}

#[derive(Default)]
struct Rows<const K: usize> {
    rows: Vec<Row<K>>,
    merged: usize,
}

impl<const K: usize> Row<K> {
    fn location(&self) -> Location {
        let mut time = [0; 8];
        time[..6].copy_from_slice(&self.time);
        let offset = u32::from_le_bytes(self.offset);
        Location {
            pack: u32::from_le_bytes(self.pack),
            offset: offset & !DELETED,
            length: u32::from_le_bytes(self.length),
            original: u32::from_le_bytes(self.original),
            compression: u16::from_le_bytes(self.compression).into(),
            deleted: offset & DELETED != 0,
            time: u64::from_le_bytes(time),
        }
    }

    /// By key; of one key, the winner first.
    fn order(&self, other: &Self, packs: &[Pack]) -> Ordering {
        self.key.cmp(&other.key).then_with(|| {
            let (one, two) = (self.location(), other.location());
            let name = |location: &Location| packs.get(location.pack as usize).map(|pack| pack.name.as_str());
            two.time
                .cmp(&one.time)
                .then_with(|| one.deleted.cmp(&two.deleted))
                .then_with(|| name(&two).cmp(&name(&one)))
        })
    }
}

impl<const K: usize> Table for Rows<K> {
    fn push(&mut self, key: &[u8], location: &Location) {
        let Ok(key) = key.try_into() else { return };
        let bytes = location.time.to_le_bytes();
        let time = *bytes.first_chunk().expect("eight bytes");
        let deleted = if location.deleted { DELETED } else { 0 };
        self.rows.push(Row {
            key,
            time,
            pack: location.pack.to_le_bytes(),
            offset: (location.offset | deleted).to_le_bytes(),
            length: location.length.to_le_bytes(),
            original: location.original.to_le_bytes(),
            compression: u16::try_from(location.compression).unwrap_or(u16::MAX).to_le_bytes(),
        });
    }

    fn wants_merge(&self) -> bool {
        self.rows.len() > 2 * self.merged + UNMERGED
    }

    fn merge(&mut self, packs: &[Pack], watermark: u64) {
        self.rows.sort_unstable_by(|one, two| one.order(two, packs));
        self.rows.dedup_by(|later, first| later.key == first.key);
        if watermark > 0 {
            self.rows.retain(|row| {
                let location = row.location();
                !(location.deleted && location.time <= watermark)
            });
        }
        self.merged = self.rows.len();
    }

    fn find(&self, key: &[u8]) -> Option<Location> {
        let found = self.rows.binary_search_by(|row| row.key.as_slice().cmp(key)).ok()?;
        Some(self.rows[found].location())
    }

    fn first_from(&self, prefix: u8) -> usize {
        self.rows.partition_point(|row| row.key[0] < prefix)
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn key(&self, row: usize) -> &[u8] {
        &self.rows[row].key
    }

    fn location(&self, row: usize) -> Location {
        self.rows[row].location()
    }
}
