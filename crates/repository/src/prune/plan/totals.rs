//! The figures of a plan, as restic prints them after "to repack:" and so on, and those of the two phases.

use std::ops::{Add, AddAssign, Sub, SubAssign};

use serde::Serialize;

/// A number of blobs and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Sum {
    pub blobs: u64,
    pub bytes: u64,
}

impl Sum {
    pub(super) fn add(&mut self, bytes: u64) {
        *self += Self { blobs: 1, bytes };
    }
}

impl Add for Sum {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { blobs: self.blobs.saturating_add(other.blobs), bytes: self.bytes.saturating_add(other.bytes) }
    }
}

impl AddAssign for Sum {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Sum {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { blobs: self.blobs.saturating_sub(other.blobs), bytes: self.bytes.saturating_sub(other.bytes) }
    }
}

impl SubAssign for Sum {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

/// The counts of a plan. Sizes of blobs are those in packs, without headers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    pub used: Sum,
    /// Further copies of used blobs.
    pub duplicate: Sum,
    pub unused: Sum,
    /// Bytes in packs that no index names.
    pub unreferenced_bytes: u64,
    /// In packs to repack, used or not.
    pub repack: Sum,
    /// What repacking drops.
    pub repack_removes: Sum,
    /// In packs without used blobs.
    pub remove: Sum,
    /// In packs that are kept and could be compressed.
    pub uncompressed_bytes: u64,
    pub packs_used: u64,
    pub packs_partly_used: u64,
    pub packs_unused: u64,
    pub packs_unreferenced: u64,
    pub packs_keep: u64,
    pub packs_repack: u64,
    pub packs_remove: u64,
    /// Packs whose grace period is over, with their whole size: what this run really frees.
    pub packs_delete_now: u64,
    pub delete_now_bytes: u64,
}

/// The figures that restic prints, under the same names, and the counts they are computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Report {
    pub to_repack: Sum,
    pub this_removes: Sum,
    pub to_delete: Sum,
    pub total_prune: Sum,
    pub remaining: Sum,
    pub unused_bytes_after_prune: u64,
    pub not_yet_compressed_bytes: u64,
    #[serde(flatten)]
    pub totals: Totals,
}

impl Totals {
    /// Everything before the prune.
    pub fn total(&self) -> Sum {
        self.used + self.duplicate + self.unused + self.unreferenced()
    }

    /// restic's "to delete": packs without used blobs, and those that no index names.
    pub fn to_delete(&self) -> Sum {
        self.remove + self.unreferenced()
    }

    /// Everything that is removed, now or after its grace period.
    pub fn total_prune(&self) -> Sum {
        self.to_delete() + self.repack_removes
    }

    pub fn remaining(&self) -> Sum {
        self.total() - self.total_prune()
    }

    /// Unused data that remains nevertheless, in partly used packs.
    pub fn unused_after(&self) -> u64 {
        (self.duplicate + self.unused - self.remove - self.repack_removes).bytes
    }

    /// The figures for users and programs.
    pub fn report(&self) -> Report {
        Report {
            to_repack: self.repack,
            this_removes: self.repack_removes,
            to_delete: self.to_delete(),
            total_prune: self.total_prune(),
            remaining: self.remaining(),
            unused_bytes_after_prune: self.unused_after(),
            not_yet_compressed_bytes: self.uncompressed_bytes,
            totals: *self,
        }
    }

    fn unreferenced(&self) -> Sum {
        Sum { blobs: 0, bytes: self.unreferenced_bytes }
    }
}
