//! The merged index: where each content is. About 40 bytes for each content, sorted, with the names of packs stored
//! once. `parse` reads one index blob; `Builder` merges many; of several entries for one content the latest wins.

mod parse;
#[cfg(test)]
pub(crate) mod parse_for_tests;
mod rows;

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::id::ContentId;
use rows::Table;

/// The largest index blob that is read.
pub(crate) const LARGEST_BLOB: u64 = 512 * 1024 * 1024;
/// The longest content, sealed or plain, in bytes.
pub(crate) const LONGEST_CONTENT: u32 = 1 << 28;
const LONGEST_NAME: usize = 128;

/// Where a content is, and how it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Location {
    /// The number of its pack in `Index::pack`.
    pub(crate) pack: u32,
    pub(crate) offset: u32,
    /// The sealed length.
    pub(crate) length: u32,
    /// The plain length.
    pub(crate) original: u32,
    /// The number of its compression; 0 for none.
    pub(crate) compression: u32,
    pub(crate) deleted: bool,
    /// When the entry was written, in seconds.
    time: u64,
}

impl Location {
    pub(crate) fn end(&self) -> u64 {
        u64::from(self.offset) + u64::from(self.length)
    }

    #[cfg(test)]
    pub(crate) fn for_tests(pack: u32, offset: u32, length: u32) -> Self {
        Self { pack, offset, length, original: length, compression: 0, deleted: false, time: 0 }
    }
}

/// A pack that the index names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pack {
    pub(crate) name: String,
    /// The end of its last content.
    pub(crate) end: u64,
}

/// All contents of a repository.
pub(crate) struct Index {
    table: Box<dyn Table>,
    packs: Vec<Pack>,
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index")
            .field("contents", &self.len())
            .field("packs", &self.packs.len())
            .finish_non_exhaustive()
    }
}

impl Index {
    pub(crate) fn find(&self, id: &ContentId) -> Option<Location> {
        self.table.find(id.key())
    }

    /// The contents with a letter that are not deleted.
    pub(crate) fn with_prefix(&self, prefix: u8) -> Vec<ContentId> {
        let (first, end) = (self.table.first_from(prefix), self.table.first_from(prefix.saturating_add(1)));
        let live = (first..end).filter(|row| !self.table.location(*row).deleted);
        live.filter_map(|row| ContentId::from_key(self.table.key(row))).collect()
    }

    /// The rows of all contents that are not deleted, in the order of their packs: four bytes for each.
    pub(crate) fn live_rows(&self) -> Vec<u32> {
        let rows = 0..u32::try_from(self.len()).unwrap_or(u32::MAX);
        let mut live: Vec<u32> = rows.filter(|row| !self.table.location(*row as usize).deleted).collect();
        live.sort_unstable_by_key(|row| {
            let location = self.table.location(*row as usize);
            (location.pack, location.offset)
        });
        live
    }

    /// The content in a row.
    pub(crate) fn row(&self, row: u32) -> Option<(ContentId, Location)> {
        let row = row as usize;
        Some((ContentId::from_key(self.table.key(row))?, self.table.location(row)))
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// The pack of a location of this index.
    pub(crate) fn pack(&self, number: u32) -> Result<&Pack> {
        let pack = self.packs.get(number as usize);
        pack.ok_or_else(|| Error::damaged("the index", "it names a pack that it does not have"))
    }

    pub(crate) fn packs(&self) -> &[Pack] {
        &self.packs
    }
}

/// Merges index blobs.
pub(crate) struct Builder {
    index: Index,
    numbers: HashMap<String, u32>,
    hash_length: usize,
    /// The plain length cannot be computed from the sealed one when error correction is on.
    corrected: bool,
}

impl Builder {
    pub(crate) fn new(hash_length: usize, corrected: bool) -> Self {
        let index = Index { table: rows::table(hash_length), packs: Vec::new() };
        Self { index, numbers: HashMap::new(), hash_length, corrected }
    }

    /// Adds the entries of one index blob, after checking all of them.
    pub(crate) fn add(&mut self, name: &str, plain: &[u8]) -> Result<()> {
        let failed = |problem: parse::Problem| match problem {
            parse::Problem::Unsupported(what, detail) => Error::unsupported(what, detail),
            parse::Problem::Damaged(detail) => Error::damaged(format!("index blob '{name}'"), detail),
        };
        let parsed = parse::Parsed::of(plain, self.hash_length, self.corrected).map_err(failed)?;
        let mut numbers: HashMap<parse::PackRef, u32> = HashMap::new();
        for entry in 0..parsed.len() {
            let found = parsed.entry(entry).map_err(failed)?;
            let pack = if let Some(number) = numbers.get(&found.pack) {
                *number
            } else {
                let number = self.number(parsed.pack_name(found.pack).map_err(failed)?, name)?;
                numbers.insert(found.pack, number);
                number
            };
            let location = Location { pack, ..found.location };
            let end = &mut self.index.packs[pack as usize].end;
            *end = (*end).max(location.end());
            self.index.table.push(found.key, &location);
        }
        if self.index.table.wants_merge() {
            self.index.table.merge(&self.index.packs, 0);
        }
        Ok(())
    }

    /// The merged index, without contents that were deleted up to the watermark.
    pub(crate) fn finish(mut self, watermark: u64) -> Index {
        self.index.table.merge(&self.index.packs, watermark);
        self.index
    }

    fn number(&mut self, pack: &[u8], name: &str) -> Result<u32> {
        let pack = valid_pack(pack).ok_or_else(|| {
            let shown = pack.escape_ascii().to_string();
            Error::damaged(format!("index blob '{name}'"), format!("it names a pack '{shown:.80}'"))
        })?;
        if let Some(number) = self.numbers.get(pack) {
            return Ok(*number);
        }
        let number = u32::try_from(self.index.packs.len())
            .map_err(|_| Error::damaged("the index", "it has too many packs"))?;
        self.index.packs.push(Pack { name: pack.to_owned(), end: 0 });
        self.numbers.insert(pack.to_owned(), number);
        Ok(number)
    }
}

/// The names of packs become keys in the store.
fn valid_pack(name: &[u8]) -> Option<&str> {
    let is_plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    let valid =
        matches!(name.first(), Some(b'p' | b'q')) && name.len() <= LONGEST_NAME && name.iter().all(is_plain);
    std::str::from_utf8(name).ok().filter(|_| valid)
}

#[cfg(test)]
mod tests;
