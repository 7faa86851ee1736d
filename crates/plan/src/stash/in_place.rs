//! Restores into volumes that may be in use: whether a workload has to be stopped, whether that is allowed, and the
//! steps of its standstill. Takes gathered objects; gives a decision, the next step, and the messages for a workload
//! that stays stopped.
//!
//! - [`users`]: the pods that use claims. A pod uses a claim from its creation until its containers have ended: one that is
//!   Pending may mount the volume at any time, one that is being deleted still has it mounted.
//! - [`scale_owners`]: the controllers that also set the scale: an owner, an autoscaler, Argo CD, Flux.
//! - [`decide`]: [`InPlaceFacts`] -> [`InPlace`] (write at once, stop first, write into running pods), or [`InPlaceError`].
//! - [`Standstill`] is the record of a stopped workload; [`Standstill::next`] gives the next [`Action`] for the
//!   current state of the cluster. The record is written before each action, so that after a crash the next server
//!   continues with the same step.
//!
//! ```text
//! Recorded -> Stopping -> Stopped -> SafetyCopy -> Restoring -> Verified -> Starting -> Started
//!                 \----------\-----------\-> Starting (nothing was written: as before)
//!                                            Restoring, Verified -> HeldDown (data may be half restored)
//!                                                                    Starting -> HeldDown (the start is refused)
//! ```
//! A workload that an earlier restore left stopped stays stopped (LeftDown) instead of being scaled back.
//!
//! - [`UNFINISHED`]: the record of a restore that is writing or has failed, on the claims that it wrote to.

mod advice;
mod cut_short;
mod decide;
mod owners;
mod rollback;
mod standstill;
#[cfg(test)]
mod tests;
mod unfinished;
mod uses;

pub use cut_short::LeftData;
pub use decide::{InPlace, InPlaceError, InPlaceFacts, StopPlan, decide, deletes_claims_when_scaled};
pub use owners::{ScaleOwner, scale_owners, was_scaled_since};
pub use rollback::{AfterRestoreError, backups_resumed, held_down, is_at_work_on, rollbacks, without_copies};
pub use standstill::{Action, DELETED, RestoreName, Standstill, StandstillFacts, Step, Work};
pub use unfinished::{UNFINISHED, unfinished, unfinished_annotation};
pub use uses::{VolumeUser, users};

use serde_json::Value;

/// Annotation of a RestoreSession or RestoreBatch: stop the workload although something else sets its scale.
pub const FORCE_SCALE: &str = "lifeboat.io/force-scale";
/// Annotation of a RestoreSession or RestoreBatch: "false" for no copy of what is overwritten.
pub const SAFETY_COPY: &str = "lifeboat.io/safety-copy";
/// Annotation of a RestoreSession or RestoreBatch: write into the volumes of running pods, if there is no other way.
pub const RESTORE_RUNNING: &str = "lifeboat.io/restore-running";
/// Annotation of a RestoreSession or RestoreBatch: the UID of the restore whose safety copies are restored, instead
/// of snapshots chosen by rules.
pub const ROLLBACK_OF: &str = "lifeboat.io/rollback-of";
/// Annotation of a workload that a restore stopped: the record of its standstill. A later restore reads the scale
/// from it, because the restore that stopped the workload may have been deleted.
pub const STANDSTILL: &str = "lifeboat.io/standstill";
/// Finalizer of a session while it owes a hook: one that is deleted runs the hook first.
pub const HOOKS_FINALIZER: &str = "lifeboat.io/hooks";
/// Finalizer of a RestoreSession or RestoreBatch while it has stopped a workload: one that is deleted starts the workload first, or leaves
/// its record there.
pub const STANDSTILL_FINALIZER: &str = "lifeboat.io/standstill";

/// The settings in the annotations of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InPlaceSettings {
    pub force_scale: bool,
    pub safety_copy: bool,
    pub restore_running: bool,
}

impl InPlaceSettings {
    /// Reads them from a RestoreSession or RestoreBatch.
    pub fn of(restore: &Value) -> Self {
        let set = |name: &str, value: &str| restore["metadata"]["annotations"][name] == *value;
        Self {
            force_scale: set(FORCE_SCALE, "true"),
            safety_copy: !set(SAFETY_COPY, "false"),
            restore_running: set(RESTORE_RUNNING, "true"),
        }
    }
}
