//! The prune decision as a value. Takes the copies of blobs that the index names (streamed, never held), which of
//! them snapshots use, the packs of the store with sizes and times, the known marks and the store's time of now;
//! gives what happens to every pack. `prune` calls it, a dry run prints it. No I/O and no clock.
//!
//! A pack leaves the repository in two phases. First the index stops naming it (that is the mark: no writer reuses
//! what is in it from then on) and the time of that is kept. A later run deletes it, when no index names it and the
//! grace time has passed since the mark or since its upload, whichever is later. A pack without a known mark gets
//! one now and waits the whole time. Only with a grace of 0 under the exclusive lock one run does both, in the same
//! order.
//!
//! Which packs are kept, repacked or dropped is decided as restic decides it, so that both programs leave the same
//! repository. Memory: about 100 bytes for each pack and a bit for each entry of the index.

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

/// What the decision is made from.
pub struct Input<'a> {
    /// What the index names.
    pub copies: &'a dyn Copies,
    /// Every pack that the index names.
    pub index_packs: &'a [PackId],
    /// The numbers of entries that snapshots use: any one copy of each blob.
    pub used: &'a EntrySet,
    /// What snapshots use and the index does not name.
    pub missing: &'a [(BlobKind, BlobId)],
    /// How many snapshots there are.
    pub snapshots: usize,
    /// All packs in the store.
    pub listed: &'a [ListedPack],
    /// When packs were taken out of the index, by the store's clock.
    pub marks: &'a HashMap<PackId, Timestamp>,
    /// By the store's clock.
    pub now: Timestamp,
    /// Whether the format compresses (version 2).
    pub compresses: bool,
}

/// What a prune does. Every list is sorted; the order of the steps is that of the fields.
#[derive(Debug, Default)]
pub struct PrunePlan {
    /// Packs that the index names although they have a mark (an index was repaired): the mark is void and must be
    /// gone before the index changes.
    pub void_marks: Vec<PackId>,
    /// Packs whose used blobs are written again, into new packs; then they leave the index.
    pub repack: Vec<PackId>,
    /// The entries of the index to write again.
    pub copies_to_repack: Arc<EntrySet>,
    /// Packs with nothing used in them: they leave the index.
    pub take_out: Vec<PackId>,
    /// Packs that are not in the store and nobody needs: they leave the index.
    pub forget_missing: Vec<PackId>,
    /// Packs whose time is counted from this run on: those that leave the index, and those that no index named
    /// and that had no mark.
    pub mark: Vec<PackId>,
    /// Packs that wait, with the time of their mark.
    pub waiting: Vec<(PackId, Timestamp)>,
    /// Packs to delete at the end, after all indexes were read again and none of them names one of these.
    pub delete: Vec<PackId>,
    /// When the first of the waiting packs can be deleted.
    pub next_due: Option<Timestamp>,
    pub totals: Totals,
}

impl PrunePlan {
    /// Whether the index has to be written again.
    pub fn changes_index(&self) -> bool {
        !(self.repack.is_empty() && self.take_out.is_empty() && self.forget_missing.is_empty())
    }

    /// Every pack that leaves the index, sorted.
    pub fn leaves_index(&self) -> Vec<PackId> {
        let mut packs = [self.repack.as_slice(), &self.take_out, &self.forget_missing].concat();
        packs.sort_unstable();
        packs
    }
}

/// Decides. An error means that nothing may be changed: the repository or what was seen of it is not in order.
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
    /// Puts each pack that the index names where its action says.
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

    /// Decides which packs are deleted, marked or left to wait.
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

/// The grace time unless a person says otherwise.
pub const DEFAULT_GRACE: Duration = Duration::from_hours(24);

/// By id; a copy only when it has to be, because there may be millions.
fn sorted(listed: &[ListedPack]) -> Cow<'_, [ListedPack]> {
    if listed.is_sorted_by_key(|pack| pack.id) {
        return Cow::Borrowed(listed);
    }
    let mut listed = listed.to_vec();
    listed.sort_unstable_by_key(|pack| pack.id);
    Cow::Owned(listed)
}

/// What cannot happen unless the stream changed between two passes.
fn changed() -> Error {
    Error::damaged("the index", "it was not the same when it was read again")
}

#[cfg(test)]
mod tests;
