//! The content of each pack in the index, summed up in passes over the stream of copies: which copy of a blob counts
//! as the used one, and finally which copies are written again.

use super::choose::Action;
use super::copies::{BlobCopy, for_each_blob};
use super::{Input, ListedPack, Sum, Totals, changed};
use crate::error::{Error, Result};
use crate::id::{BlobKind, PackId};
use crate::pack::{HEADER_OVERHEAD, header_entry_length};
use crate::walk::EntrySet;

/// The content of a pack.
#[derive(Debug, Clone)]
pub(super) struct Pack {
    pub(super) id: PackId,
    /// None before the first blob, or if kinds are mixed (see `mixed`).
    kind: Option<BlobKind>,
    mixed: bool,
    pub(super) uncompressed: bool,
    pub(super) used_blobs: u32,
    pub(super) unused_blobs: u32,
    /// Unused copies of blobs that are used through another copy.
    duplicates: u32,
    /// Including the header.
    pub(super) used_size: u64,
    pub(super) unused_size: u64,
    /// None if the store does not have it.
    pub(super) listed_size: Option<u64>,
    pub(super) action: Action,
}

impl Pack {
    fn new(id: PackId) -> Self {
        Self {
            id,
            kind: None,
            mixed: false,
            uncompressed: false,
            used_blobs: 0,
            unused_blobs: 0,
            duplicates: 0,
            used_size: HEADER_OVERHEAD.into(),
            unused_size: 0,
            listed_size: None,
            action: Action::Keep,
        }
    }

    /// The size that the pack must have.
    pub(super) fn size(&self) -> u64 {
        self.used_size + self.unused_size
    }

    pub(super) fn is_mixed(&self) -> bool {
        self.mixed
    }

    /// Whether all blobs are chunks of files.
    pub(super) fn is_data(&self) -> bool {
        !self.mixed && self.kind == Some(BlobKind::Data)
    }

    /// Whether all blobs are trees.
    pub(super) fn is_trees(&self) -> bool {
        !self.mixed && self.kind == Some(BlobKind::Tree)
    }

    fn note(&mut self, copy: &BlobCopy) {
        self.mixed |= self.kind.is_some_and(|kind| kind != copy.kind);
        self.kind = Some(copy.kind);
        self.uncompressed |= !copy.compressed;
        self.used_size += u64::from(header_entry_length(copy.compressed));
    }

    fn add_used(&mut self, length: u32) {
        self.used_blobs += 1;
        self.used_size += u64::from(length);
    }

    fn add_unused(&mut self, length: u32) {
        self.unused_blobs += 1;
        self.unused_size += u64::from(length);
    }

    /// Makes one copy of a used blob the one that counts.
    fn becomes_used(&mut self, length: u32) {
        self.unused_blobs -= 1;
        self.unused_size -= u64::from(length);
        self.add_used(length);
    }
}

/// All packs in the index, found by ID without a map: IDs are hashes, so their first two bytes give the position in
/// the sorted list.
pub(super) struct PackTable {
    packs: Vec<Pack>,
    /// The position of the first pack that starts with these two bytes.
    starts: Vec<u32>,
}

impl PackTable {
    pub(super) fn new(ids: &[PackId]) -> Self {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        ids.dedup();
        let mut starts = vec![0; (1 << 16) + 1];
        for id in &ids {
            starts[first_bytes(id) + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        Self { packs: ids.into_iter().map(Pack::new).collect(), starts }
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Pack> {
        self.packs.iter()
    }

    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Pack> {
        self.packs.iter_mut()
    }

    pub(super) fn len(&self) -> usize {
        self.packs.len()
    }

    pub(super) fn position(&self, id: &PackId) -> Option<usize> {
        let first = first_bytes(id);
        let [start, end] = [self.starts[first] as usize, self.starts[first + 1] as usize];
        let found = self.packs[start..end].binary_search_by(|pack| pack.id.cmp(id)).ok()?;
        Some(start + found)
    }

    fn of(&mut self, copy: &BlobCopy) -> Result<&mut Pack> {
        let position = self.position(&copy.pack).ok_or_else(changed)?;
        Ok(&mut self.packs[position])
    }

    /// Sums up used, unused and duplicate blobs. Of several copies of a used blob, one counts as used: the first
    /// whose pack has other used blobs, or only duplicates (as after an interrupted prune, whose work is kept that
    /// way), or else the last.
    pub(super) fn add_up(&mut self, input: &Input<'_>, totals: &mut Totals) -> Result<()> {
        let mut any_duplicates = false;
        for_each_blob(input.copies, &mut |numbers, copies| {
            let used = is_used(input.used, numbers);
            for (_, copy) in copies {
                let pack = self.of(copy)?;
                pack.note(copy);
                if used && copies.len() == 1 {
                    pack.add_used(copy.length);
                    totals.used.add(copy.length.into());
                } else {
                    pack.add_unused(copy.length);
                    pack.duplicates += u32::from(used);
                    let sum = if used { &mut totals.duplicate } else { &mut totals.unused };
                    sum.add(copy.length.into());
                }
            }
            any_duplicates |= used && copies.len() > 1;
            Ok(())
        })?;
        if any_duplicates { self.choose_copies(input, totals) } else { Ok(()) }
    }

    fn choose_copies(&mut self, input: &Input<'_>, totals: &mut Totals) -> Result<()> {
        for_each_blob(input.copies, &mut |numbers, copies| {
            if copies.len() == 1 || !is_used(input.used, numbers) {
                return Ok(());
            }
            for (number, (_, copy)) in copies.iter().enumerate() {
                let pack = self.of(copy)?;
                let only_copies = pack.duplicates == pack.unused_blobs;
                if pack.used_blobs > 0 || only_copies || number + 1 == copies.len() {
                    pack.becomes_used(copy.length);
                    totals.used.add(copy.length.into());
                    totals.duplicate -= Sum { blobs: 1, bytes: copy.length.into() };
                    break;
                }
            }
            Ok(())
        })
    }

    /// Records the sizes in the store; `listed` is sorted.
    pub(super) fn attach_listing(&mut self, listed: &[ListedPack]) {
        for pack in listed {
            if let Some(position) = self.position(&pack.id) {
                self.packs[position].listed_size = Some(pack.size);
            }
        }
    }

    /// The entries to write again: one copy of each used blob that has none in a pack that is kept. Fails if a used
    /// blob would be left without a copy, whatever the reason.
    pub(super) fn copies_to_repack(&self, input: &Input<'_>) -> Result<EntrySet> {
        if self.packs.iter().all(|pack| pack.action == Action::Keep) {
            return Ok(EntrySet::default());
        }
        let chosen = EntrySet::new(input.used.length());
        for_each_blob(input.copies, &mut |numbers, copies| {
            if !is_used(input.used, numbers) {
                return Ok(());
            }
            let mut again = None;
            for (number, copy) in copies {
                let position = self.position(&copy.pack).ok_or_else(changed)?;
                match self.packs[position].action {
                    Action::Keep => return Ok(()),
                    Action::Repack => again = again.or(Some(*number)),
                    Action::TakeOut | Action::ForgetMissing => {}
                }
            }
            match (again, copies.first()) {
                (Some(number), _) if chosen.insert(number) => Ok(()),
                (_, Some((_, copy))) => Err(Error::MissingBlob { kind: copy.kind, id: copy.id }),
                _ => Err(changed()),
            }
        })?;
        Ok(chosen)
    }
}

/// Whether snapshots use the blob: the walk marks any one of its entries.
fn is_used(used: &EntrySet, numbers: &[u64]) -> bool {
    numbers.iter().any(|number| used.contains(*number))
}

fn first_bytes(id: &PackId) -> usize {
    usize::from(u16::from_be_bytes([id.0.0[0], id.0.0[1]]))
}
