//! Checks whether the packs that the index names exist with the right size, and finds packs that no index names.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use jiff::Timestamp;

use super::report::{ErrorKind, HintKind, Report};
use crate::error::Result;
use crate::files::FileKind;
use crate::id::{BlobKind, PackId};
use crate::index::Index;
use crate::pack::{HEADER_OVERHEAD, header_entry_length};
use crate::prune::marks::Marks;
use crate::prune::plan;
use crate::repository::Repository;

/// A pack that exists and is in the index.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownPack {
    pub(super) id: PackId,
    /// Its number in the index.
    pub(super) number: u32,
    /// Its size in the store.
    pub(super) size: u64,
    /// The number of its blobs in the index.
    pub(super) blobs: u32,
}

/// The properties of a pack according to the index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    pub(crate) size: u64,
    pub(crate) blobs: u32,
    data: bool,
    trees: bool,
}

/// The size that each pack should have, by its number in the index.
pub(crate) fn expected_sizes(index: &Index) -> Result<Vec<Expected>> {
    let none = Expected { size: u64::from(HEADER_OVERHEAD), blobs: 0, data: false, trees: false };
    let mut packs = vec![none; index.packs().len()];
    index.for_each(&mut |entry| {
        let pack = &mut packs[entry.pack_number as usize];
        let compressed = entry.location.uncompressed_length != 0;
        pack.size += u64::from(entry.location.length) + u64::from(header_entry_length(compressed));
        pack.blobs = pack.blobs.saturating_add(1);
        pack.data |= entry.kind == BlobKind::Data;
        pack.trees |= entry.kind == BlobKind::Tree;
        Ok(())
    })?;
    Ok(packs)
}

pub(super) async fn check_packs(
    repository: &Repository,
    index: &Index,
    report: &Report,
) -> Result<Vec<KnownPack>> {
    let listed = repository.list(FileKind::Pack).await?;
    report.packs.store(listed.len() as u64, Ordering::Relaxed);
    let mut sizes: HashMap<PackId, u64> = listed.iter().map(|file| (PackId(file.id), file.size)).collect();
    let mut known = Vec::new();
    for (number, (id, expected)) in (0..).zip(index.packs().iter().zip(expected_sizes(index)?)) {
        let object = format!("pack {id}");
        if expected.data && expected.trees {
            report.hint(HintKind::MixedPack, &*object, "it contains trees and data; `prune` separates them");
        }
        let Some(size) = sizes.remove(id) else {
            report.missing_pack(*id);
            report.error(ErrorKind::MissingPack, object, "it does not exist");
            continue;
        };
        if size != expected.size {
            report.broken_pack(*id);
            let message = format!("it has {size} bytes instead of {}", expected.size);
            report.error(ErrorKind::PackSize, object, message);
        }
        known.push(KnownPack { id: *id, number, size, blobs: expected.blobs });
    }
    unindexed(repository, sizes.into_keys(), report).await;
    Ok(known)
}

/// Finds packs that no index names. Packs that a prune has just removed from the index do not call for another prune.
async fn unindexed(repository: &Repository, packs: impl ExactSizeIterator<Item = PackId>, report: &Report) {
    if packs.len() == 0 {
        return;
    }
    // Without the marks, no pack is known to wait.
    let marks = Marks::load(repository).await.unwrap_or_default();
    let grace = plan::Options::default().grace;
    let due = |id: &PackId| marks.times.get(id).and_then(|mark| mark.checked_add(grace).ok());
    let mut waiting: Vec<Timestamp> = Vec::new();
    for id in packs {
        if let Some(due) = due(&id).filter(|due| *due > Timestamp::now()) {
            waiting.push(due);
        } else {
            let message = "no index names it; `prune` removes it if no snapshot needs it";
            report.hint(HintKind::UnindexedPack, format!("pack {id}"), message);
        }
    }
    if let Some(first) = waiting.iter().min() {
        let object = format!("{} packs", waiting.len());
        let message =
            format!("they wait for the end of their grace period: `prune` removes the first after {first}");
        report.hint(HintKind::WaitingPacks, object, message);
    }
}
