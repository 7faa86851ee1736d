//! Mending a repository: the index from the packs, packs from what is whole in them, snapshots without what is
//! lost. Each says what it did, and nothing is removed before what replaces it is in the store.

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

/// Whether what could not be read is gone or damaged for good. Anything else, such as a store that cannot be
/// reached, must stop a repair: what is not seen now may be there tomorrow.
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
