//! What the index files say about each pack, without the blobs: 64 bytes for each pack, however many blobs it has.
//! Each index file is read once.

use std::collections::{BTreeSet, HashMap};

use futures::{StreamExt, stream};

use super::RepairIndexOutcome;
use crate::error::{Error, Result};
use crate::id::{BlobKind, Hasher, IndexId, PackId};
use crate::index::IndexedPack;
use crate::pack::{HEADER_OVERHEAD, header_entry_length};
use crate::repair::is_lost;
use crate::repair::rewrite_index::load;
use crate::repository::Repository;

/// How many index files are read concurrently; each may have some megabytes.
const CONCURRENT: usize = 4;

/// A pack according to the index files.
#[derive(Debug)]
pub(super) struct Known {
    /// The size that the pack must have for these blobs.
    pub(super) size: u64,
    /// A part of the hash of its entry.
    entry: [u8; 16],
    /// The first file that names it.
    pub(super) file: u32,
    /// Whether all files say the same.
    pub(super) alike: bool,
}

/// All index files that can be read.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) files: Vec<IndexId>,
    pub(super) known: HashMap<PackId, Known>,
    /// Files that name a pack that an earlier file names, or one twice.
    pub(super) repeating: BTreeSet<u32>,
    /// Files that cannot be read.
    pub(super) damaged: Vec<IndexId>,
}

impl Survey {
    pub(super) async fn read(
        repository: &Repository,
        files: Vec<IndexId>,
        outcome: &mut RepairIndexOutcome,
    ) -> Result<Self> {
        let mut survey = Self { files, ..Self::default() };
        let loading = stream::iter(survey.files.clone()).map(async |id| (id, load(repository, id).await));
        let mut loading = loading.buffered(CONCURRENT);
        let mut number = 0;
        while let Some((id, file)) = loading.next().await {
            match file {
                Ok(file) => file.packs.iter().for_each(|pack| survey.add(pack, number)),
                Err(error) if is_lost(&error) => {
                    survey.damaged.push(id);
                    outcome.damaged_indexes.push((id, error.to_string()));
                }
                Err(error) => return Err(error),
            }
            number += 1;
        }
        Ok(survey)
    }

    fn add(&mut self, pack: &IndexedPack, file: u32) {
        let entry = fingerprint(pack);
        if let Some(known) = self.known.get_mut(&pack.id) {
            known.alike &= known.entry == entry;
            self.repeating.insert(file);
        } else {
            self.known.insert(pack.id, Known { size: size_of(pack), entry, file, alike: true });
        }
    }

    /// The entry of a pack, from the first file that names it.
    pub(super) async fn entry(&self, repository: &Repository, pack: PackId) -> Result<Option<IndexedPack>> {
        let Some(known) = self.known.get(&pack) else { return Ok(None) };
        let Some(file) = self.files.get(known.file as usize) else { return Ok(None) };
        let found = load(repository, *file).await?.packs.into_iter().find(|entry| entry.id == pack);
        found.map(Some).ok_or_else(|| Error::damaged("an index file", "it changed while it was repaired"))
    }
}

fn size_of(pack: &IndexedPack) -> u64 {
    let blobs = pack
        .blobs()
        .map(|blob| u64::from(blob.length) + u64::from(header_entry_length(blob.uncompressed_length != 0)));
    u64::from(HEADER_OVERHEAD) + blobs.sum::<u64>()
}

fn fingerprint(pack: &IndexedPack) -> [u8; 16] {
    let mut hasher = Hasher::new();
    for blob in pack.blobs() {
        hasher.update(&blob.id.0.0);
        hasher.update(&[u8::from(blob.kind == BlobKind::Tree)]);
        for number in [blob.offset, blob.length, blob.uncompressed_length] {
            hasher.update(&number.to_be_bytes());
        }
    }
    let mut fingerprint = [0; 16];
    fingerprint.copy_from_slice(&hasher.finish().0[..16]);
    fingerprint
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty million blobs are at most a million packs of 16 MiB or more: 64 MB, and as much again for the listing.
    #[test]
    fn a_pack_takes_no_more_memory_than_its_id_and_four_words() {
        assert!(std::mem::size_of::<(PackId, Known)>() <= 64);
    }
}
