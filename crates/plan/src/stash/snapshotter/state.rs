//! The progress of a driver with a VolumeSnapshot, read from the VolumeSnapshot alone, and how long each state is
//! tolerated. A driver that reports an error tries again, so an error ends the wait only if it persists.

use std::time::Duration;

use serde_json::Value;

use crate::json::text;
use crate::transfer::snapshots::{bound_content, is_going, reported_error};

/// How long a snapshot may take if the invoker sets no `timeOut`.
pub const LONGEST: Duration = Duration::from_hours(24);
/// How long a snapshot controller may take to notice a new VolumeSnapshot.
const NOTICED: Duration = Duration::from_mins(10);
/// How long a driver may report errors.
const FAILING: Duration = Duration::from_mins(30);

/// The state of a VolumeSnapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotState {
    pub stage: Stage,
    /// The last error that the driver or a snapshot controller reported, while the snapshot is not ready.
    pub problem: Option<String>,
}

/// The stages of a snapshot, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The VolumeSnapshot is being deleted.
    Deleted,
    /// No snapshot controller has bound it to a VolumeSnapshotContent.
    Requested,
    /// It is bound to a VolumeSnapshotContent, and the driver has not taken the snapshot.
    Bound,
    /// The driver has taken the snapshot: later writes to the volume do not change it, but volumes cannot be created from it yet.
    Taken,
    Ready,
}

impl SnapshotState {
    pub fn of(snapshot: &Value) -> Self {
        let stage = if is_going(snapshot) {
            Stage::Deleted
        } else if bound_content(snapshot).is_none() {
            Stage::Requested
        } else if snapshot["status"]["readyToUse"] == true {
            Stage::Ready
        } else if text(snapshot, "/status/creationTime").is_empty() {
            Stage::Bound
        } else {
            Stage::Taken
        };
        Self { stage, problem: reported_error(snapshot).filter(|_| stage < Stage::Ready) }
    }

    /// The reported error, or else what the snapshot waits for.
    pub fn message(&self) -> String {
        let waits = match self.stage {
            Stage::Deleted => "it is being deleted",
            Stage::Requested => "no snapshot controller has bound it to a content yet; is one running?",
            Stage::Bound => "its driver has not taken it yet",
            Stage::Taken => "it is taken, and its driver has not made it ready to use yet",
            Stage::Ready => "it is ready to use",
        };
        self.problem.clone().unwrap_or_else(|| waits.to_owned())
    }

    /// How long the snapshot may stay in this state; None if only the `timeOut` of the session limits it.
    pub fn patience(&self) -> Option<Duration> {
        match (self.stage, &self.problem) {
            (Stage::Deleted, _) => Some(Duration::ZERO),
            (_, Some(_)) => Some(FAILING),
            (Stage::Requested, None) => Some(NOTICED),
            _ => None,
        }
    }

    /// Whether the wait for this state continues in the other state; if not, it starts again. The texts of errors are not
    /// compared, because drivers put changing IDs into them.
    pub fn is_same_wait(&self, other: &Self) -> bool {
        self.stage == other.stage && self.problem.is_some() == other.problem.is_some()
    }
}
