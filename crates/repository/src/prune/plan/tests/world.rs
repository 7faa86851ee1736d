//! A small repository as input of a plan.

use super::super::*;
use crate::id::Id;

pub(super) const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

/// This many hours after `NOW`, or before it.
pub(super) fn hour(hours: i64) -> Timestamp {
    NOW + SignedDuration::from_hours(hours)
}

pub(super) fn pack_id(number: u8) -> PackId {
    PackId(Id::of(&[number]))
}

#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) copies: Vec<BlobCopy>,
    pub(super) used: Vec<bool>,
    pub(super) unindexed: Vec<ListedPack>,
    /// How the listing differs: the pack is longer, or missing.
    pub(super) resized: Vec<(PackId, Option<i64>)>,
    pub(super) marks: HashMap<PackId, Timestamp>,
    pub(super) missing: Vec<(BlobKind, BlobId)>,
    pub(super) snapshots: usize,
    pub(super) compresses: bool,
    pub(super) repeat_listing: bool,
    pub(super) name_twice: bool,
    pub(super) blobs: u32,
}

impl Default for World {
    fn default() -> Self {
        Self {
            copies: Vec::new(),
            used: Vec::new(),
            unindexed: Vec::new(),
            resized: Vec::new(),
            marks: HashMap::new(),
            missing: Vec::new(),
            snapshots: 1,
            compresses: true,
            repeat_listing: false,
            name_twice: false,
            blobs: 0,
        }
    }
}

impl World {
    pub(super) fn blob(&mut self, kind: BlobKind, length: u32, used: bool, packs: &[u8]) {
        self.add(kind, length, used, packs, true);
    }

    pub(super) fn uncompressed_blob(&mut self, kind: BlobKind, length: u32, used: bool, packs: &[u8]) {
        self.add(kind, length, used, packs, false);
    }

    fn add(&mut self, kind: BlobKind, length: u32, used: bool, packs: &[u8], compressed: bool) {
        self.blobs += 1;
        let id = BlobId(Id::of(&self.blobs.to_be_bytes()));
        for (number, pack) in packs.iter().map(|number| pack_id(*number)).enumerate() {
            let last = self.copies.iter().rfind(|copy| copy.pack == pack);
            let offset = last.map_or(0, |copy| copy.offset + copy.length);
            self.copies.push(BlobCopy { kind, id, pack, offset, length, compressed });
            // The walk marks one copy, not necessarily the first.
            self.used.push(used && number == packs.len() - 1);
        }
    }

    pub(super) fn unindexed(&mut self, pack: u8, size: u64, modified: Timestamp) {
        self.unindexed.push(ListedPack { id: pack_id(pack), size, modified });
    }

    pub(super) fn resize(&mut self, pack: u8, longer: Option<i64>) {
        self.resized.push((pack_id(pack), longer));
    }

    pub(super) fn index_packs(&self) -> Vec<PackId> {
        let mut packs: Vec<_> = self.copies.iter().map(|copy| copy.pack).collect();
        packs.sort();
        packs.dedup();
        packs
    }

    pub(super) fn listed(&self) -> Vec<ListedPack> {
        let mut listed = self.unindexed.clone();
        for id in self.index_packs() {
            let blobs = self.copies.iter().filter(|copy| copy.pack == id);
            let size: u64 =
                blobs.map(|copy| u64::from(copy.length) + if copy.compressed { 41 } else { 37 }).sum();
            let modified = hour(-1000);
            match self.resized.iter().find(|(resized, _)| *resized == id) {
                None => listed.push(ListedPack { id, size: size + 36, modified }),
                Some((_, Some(longer))) => {
                    listed.push(ListedPack {
                        id,
                        size: (size + 36).saturating_add_signed(*longer),
                        modified,
                    });
                }
                Some((_, None)) => {}
            }
        }
        if self.repeat_listing {
            listed.extend(listed.first().copied());
        }
        listed
    }

    pub(super) fn plan(&self, options: &Options) -> Result<PrunePlan> {
        let mut copies = Vec::new();
        let mut used = Vec::new();
        for (copy, is_used) in self.copies.iter().zip(&self.used) {
            for _ in 0..=usize::from(self.name_twice) {
                copies.push(*copy);
                used.push(*is_used);
            }
        }
        let set = EntrySet::new(copies.len() as u64);
        for (number, _) in (0..).zip(&used).filter(|(_, used)| **used) {
            set.insert(number);
        }
        let input = Input {
            copies: &Held(copies),
            index_packs: &self.index_packs(),
            used: &set,
            missing: &self.missing,
            snapshots: self.snapshots,
            listed: &self.listed(),
            marks: &self.marks,
            now: NOW,
            compresses: self.compresses,
        };
        plan(&input, options)
    }
}

struct Held(Vec<BlobCopy>);

impl Copies for Held {
    fn for_each(&self, visit: &mut dyn FnMut(u64, &BlobCopy) -> Result<()>) -> Result<()> {
        (0..).zip(&self.0).try_for_each(|(number, copy)| visit(number, copy))
    }
}
