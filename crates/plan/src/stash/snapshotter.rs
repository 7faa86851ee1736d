//! Driver VolumeSnapshotter: the data of a claim is kept as a VolumeSnapshot in the storage system, and restored as a
//! new claim. Takes objects and the time; gives names, decisions and the objects to create. Called by crate `stash`.
//!
//! - [`SnapshotOwner`]: names and labels of the VolumeSnapshots of a session, and which objects are its own: [`SnapshotOwner::choose`].
//! - [`SnapshotState`]: the progress of a driver with a snapshot, and how long each state is tolerated.
//! - [`removable`]: the snapshots of an invoker that its policy does not keep.
//! - [`restored_claims`], [`select_snapshots`]: the claims of a restore and the snapshot of each; [`claim_from`] is
//!   the object to create.
//! - [`Filling`]: whether such a claim has its data.
//!
//! Hosts have the names of claims, as in upstream. `targets` decides which claims a target has.

mod filling;
mod names;
mod restore;
mod retention;
mod selection;
mod state;
#[cfg(test)]
mod tests;

pub use filling::{Filling, RestoredClaimFacts, filling};
pub use names::{Choice, NotOurs, SESSION, SnapshotOwner, owned_by_session};
pub use restore::{
    RESTORE, RestoredClaim, RestoredClaimError, check_rules, claim_from, is_of_restore, labelled,
    restored_claims,
};
pub use retention::{removable, selector};
pub use selection::{SnapshotSelection, select_snapshots};
pub use state::{LONGEST, SnapshotState, Stage};

use serde_json::Value;

use crate::json::text;

/// The claim that a VolumeSnapshot was taken of; empty for one of another origin.
fn claim_of(snapshot: &Value) -> &str {
    text(snapshot, "/spec/source/persistentVolumeClaimName")
}
