//! The prune decision as a value. Takes the copies of blobs in the index (streamed, never held in memory), which of
//! them snapshots use, the packs of the store with sizes and times, the known marks and the store's current time;
//! returns what happens to every pack. `prune` calls it, a dry run prints it. No I/O and no clock.
//!
//! A pack is removed from the repository in two phases. First it is removed from the index (that is the mark: no
//! writer reuses its blobs from then on) and the time is recorded. A later run deletes it, when no index names it and
//! the grace period has passed since the mark or since its upload, whichever is later. A pack without a known mark
//! gets one now and waits for the whole period. Only with a grace period of 0 and under the exclusive lock, one run
//! does both, in the same order.
//!
//! Packs are kept, repacked or removed by the same rules as in restic, so that both programs leave the same
//! repository. Memory: about 100 bytes per pack and one bit per entry of the index.

mod choose;
mod copies;
mod options;
mod packs;
mod refuse;
mod totals;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

pub use copies::{BlobCopy, Copies};
pub use options::{MaxUnused, Options, bytes};
pub use totals::{Report, Sum, Totals};

use crate::error::{Error, Result};
use crate::id::{BlobId, BlobKind, PackId};
use crate::walk::EntrySet;
use choose::Action;
use packs::PackTable;

/// A pack as the store lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedPack {
    pub id: PackId,
    pub size: u64,
    /// When it was uploaded, by the store's clock.
    pub modified: Timestamp,
}

/// The input of the decision.
pub struct Input<'a> {
    /// The copies of blobs in the index.
    pub copies: &'a dyn Copies,
    /// Every pack in the index.
    pub index_packs: &'a [PackId],
    /// The numbers of the entries that snapshots use: one copy of each blob.
    pub used: &'a EntrySet,
    /// Blobs that snapshots use and that are not in the index.
    pub missing: &'a [(BlobKind, BlobId)],
    /// The number of snapshots.
    pub snapshots: usize,
    /// All packs in the store.
    pub listed: &'a [ListedPack],
    /// When packs were removed from the index, by the store's clock.
    pub marks: &'a HashMap<PackId, Timestamp>,
    /// The current time by the store's clock.
    pub now: Timestamp,
    /// Whether the format supports compression (version 2).
    pub compresses: bool,
}

/// The plan of a prune. Every list is sorted; the steps are in the order of the fields.
#[derive(Debug, Default)]
pub struct PrunePlan {
    /// Packs that are in the index although they have a mark (an index was repaired): the mark is void and must be
    /// removed before the index changes.
    pub void_marks: Vec<PackId>,
    /// Packs whose used blobs are written again, into new packs; then the packs are removed from the index.
    pub repack: Vec<PackId>,
    /// The entries of the index to write again.
    pub copies_to_repack: Arc<EntrySet>,
    /// Packs without used blobs: they are removed from the index.
    pub take_out: Vec<PackId>,
    /// Packs that are not in the store and that no snapshot needs: they are removed from the index.
    pub forget_missing: Vec<PackId>,
    /// Packs whose grace period starts with this run: those that are removed from the index, and those that no index
    /// named and that had no mark.
    pub mark: Vec<PackId>,
    /// Packs that wait, with the time of their mark.
    pub waiting: Vec<(PackId, Timestamp)>,
    /// Packs to delete at the end, after all indexes were read again and none of them names one of these.
    pub delete: Vec<PackId>,
    /// When the first waiting pack can be deleted.
    pub next_due: Option<Timestamp>,
    pub totals: Totals,
}

impl PrunePlan {
    /// Whether the index must be rewritten.
    pub fn changes_index(&self) -> bool {
        !(self.repack.is_empty() && self.take_out.is_empty() && self.forget_missing.is_empty())
    }

    /// Every pack that is removed from the index, sorted.
    pub fn leaves_index(&self) -> Vec<PackId> {
        let mut packs = [self.repack.as_slice(), &self.take_out, &self.forget_missing].concat();
        packs.sort_unstable();
        packs
    }
}

/// Makes the decision. An error means that nothing may be changed: the repository, or what was read of it, is
/// inconsistent.
pub fn plan(input: &Input<'_>, options: &Options) -> Result<PrunePlan> {
    options.check(input.compresses)?;
    refuse::incomplete(input, options)?;
    let listed = sorted(input.listed);
    refuse::repeated(&listed)?;

    let mut totals = Totals::default();
    let mut packs = PackTable::new(input.index_packs);
    packs.add_up(input, &mut totals)?;
    packs.attach_listing(&listed);
    refuse::needed_packs(&packs)?;
    choose::choose(&mut packs, options, input.compresses, &mut totals);

    let mut plan = PrunePlan { totals, ..PrunePlan::default() };
    plan.sort_indexed(&packs, input);
    plan.sort_unindexed(&packs, &listed, input, options);
    plan.copies_to_repack = Arc::new(packs.copies_to_repack(input)?);
    Ok(plan)
}

impl PrunePlan {
    /// Sorts each pack of the index into the list of its action.
    fn sort_indexed(&mut self, packs: &PackTable, input: &Input<'_>) {
        for pack in packs.iter() {
            if input.marks.contains_key(&pack.id) {
                self.void_marks.push(pack.id);
            }
            match pack.action {
                Action::Keep => {}
                Action::Repack => self.repack.push(pack.id),
                Action::TakeOut => self.take_out.push(pack.id),
                Action::ForgetMissing => self.forget_missing.push(pack.id),
            }
        }
    }

    /// Decides which packs are deleted, marked or wait.
    fn sort_unindexed(
        &mut self,
        packs: &PackTable,
        listed: &[ListedPack],
        input: &Input<'_>,
        options: &Options,
    ) {
        let at_once = options.grace.is_zero();
        let grace = SignedDuration::try_from(options.grace).unwrap_or(SignedDuration::MAX);
        for pack in listed {
            if packs.position(&pack.id).is_some() {
                continue;
            }
            self.totals.packs_unreferenced += 1;
            self.totals.unreferenced_bytes += pack.size;
            // A mark from the future says nothing about how long the pack has been waiting.
            let mark = input.marks.get(&pack.id).filter(|mark| **mark <= input.now);
            match mark {
                _ if at_once => self.delete_now(pack.id, pack.size),
                None => self.mark.push(pack.id),
                Some(mark) => {
                    let since = pack.modified.max(*mark);
                    if input.now.duration_since(since) >= grace {
                        self.delete_now(pack.id, pack.size);
                    } else {
                        self.waiting.push((pack.id, *mark));
                        let due = since.checked_add(grace).unwrap_or(Timestamp::MAX);
                        self.next_due = Some(self.next_due.map_or(due, |first| first.min(due)));
                    }
                }
            }
        }
        for pack in packs.iter().filter(|pack| matches!(pack.action, Action::Repack | Action::TakeOut)) {
            if at_once {
                self.delete_now(pack.id, pack.listed_size.unwrap_or(0));
            } else {
                self.mark.push(pack.id);
            }
        }
        self.mark.sort_unstable();
        self.delete.sort_unstable();
        if !self.mark.is_empty() {
            let due = input.now.checked_add(grace).unwrap_or(Timestamp::MAX);
            self.next_due = Some(self.next_due.map_or(due, |first| first.min(due)));
        }
    }

    fn delete_now(&mut self, pack: PackId, size: u64) {
        self.delete.push(pack);
        self.totals.packs_delete_now += 1;
        self.totals.delete_now_bytes += size;
    }
}

/// The default grace period.
pub const DEFAULT_GRACE: Duration = Duration::from_hours(24);

/// Sorted by ID; copied only if necessary, because there may be millions.
fn sorted(listed: &[ListedPack]) -> Cow<'_, [ListedPack]> {
    if listed.is_sorted_by_key(|pack| pack.id) {
        return Cow::Borrowed(listed);
    }
    let mut listed = listed.to_vec();
    listed.sort_unstable_by_key(|pack| pack.id);
    Cow::Owned(listed)
}

/// Only possible if the stream changed between two passes.
fn changed() -> Error {
    Error::damaged("the index", "it had changed when it was read again")
}

#[cfg(test)]
mod tests;
