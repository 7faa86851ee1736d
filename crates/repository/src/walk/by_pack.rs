//! Entries of the index, grouped by pack and sorted by offset, for operations that read many blobs. The index is
//! sorted by blob, so it is read once for each batch of packs; a batch is as large as memory allows.

use std::ops::Range;

use super::EntrySet;
use crate::error::Result;
use crate::id::PackId;
use crate::index::{Entry, Index};

/// The number of entries in memory at a time: about 50 MB.
const BATCH: u64 = 500_000;

/// The chosen entries of one pack.
#[derive(Debug)]
pub(crate) struct PackEntries {
    pub(crate) pack: PackId,
    pub(crate) entries: Vec<Entry>,
}

/// Ranges of pack numbers; `load_batch` returns the entries of one.
pub(crate) fn batches(index: &Index, chosen: &EntrySet) -> Result<Vec<Range<u32>>> {
    let mut counts = vec![0_u64; index.packs().len()];
    index.for_each(&mut |entry| {
        counts[entry.pack_number as usize] += u64::from(chosen.contains(entry.number));
        Ok(())
    })?;
    let mut batches = Vec::new();
    let (mut start, mut held) = (0, 0);
    for (number, count) in (0_u32..).zip(&counts) {
        if held > 0 && held + count > BATCH {
            batches.push(start..number);
            (start, held) = (number, 0);
        }
        held += count;
    }
    if held > 0 {
        batches.push(start..u32::try_from(counts.len()).unwrap_or(u32::MAX));
    }
    Ok(batches)
}

/// The chosen entries of the packs with these numbers, pack by pack.
pub(crate) fn load_batch(index: &Index, chosen: &EntrySet, packs: &Range<u32>) -> Result<Vec<PackEntries>> {
    let mut entries = Vec::new();
    index.for_each(&mut |entry| {
        if packs.contains(&entry.pack_number) && chosen.contains(entry.number) {
            entries.push(entry);
        }
        Ok(())
    })?;
    entries.sort_unstable_by_key(|entry| (entry.pack_number, entry.location.offset));
    let mut grouped: Vec<PackEntries> = Vec::new();
    for entry in entries {
        match grouped.last_mut() {
            Some(last) if last.pack == entry.location.pack => last.entries.push(entry),
            _ => grouped.push(PackEntries { pack: entry.location.pack, entries: vec![entry] }),
        }
    }
    Ok(grouped)
}
