//! Repairs a repository: the index from the packs, packs from their intact blobs, snapshots without lost data. Each
//! operation reports what it did, and nothing is removed before its replacement is in the store.

mod index;
mod packs;
mod rewrite_index;
mod snapshots;
mod tree;

pub use index::{RepairIndexOptions, RepairIndexOutcome, repair_index};
pub use packs::{RepairPacksOptions, RepairPacksOutcome, repair_packs};
pub use snapshots::{RepairSnapshotsOptions, RepairSnapshotsOutcome, RepairedSnapshot, repair_snapshots};
pub use tree::{Mended, MendedKind};

use crate::error::Error;

/// Whether content that could not be read is missing or damaged permanently. Any other error, such as an unreachable
/// store, must stop a repair: the content may be available again later.
pub(crate) fn is_lost(error: &Error) -> bool {
    match error {
        Error::Damaged { .. } | Error::MissingBlob { .. } => true,
        Error::Store { source, .. } => {
            source.is_not_found() || matches!(source, lifeboat_store::Error::Range { .. })
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
