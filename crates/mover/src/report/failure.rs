//! Why a task of a mover failed: for people, and from a fixed list for status, events and metrics.

use serde::{Deserialize, Serialize};

/// Why the work failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    pub cause: Cause,
    /// For the user: what was attempted, why it failed, and what to do.
    pub message: String,
}

/// Why a task failed, from a fixed list, for status, events and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cause {
    /// The task file is invalid.
    Task,
    /// The directory is not the expected volume, or it was unmounted.
    WrongVolume,
    /// The source could not be read.
    Source,
    /// The target could not be written.
    Target,
    /// The target is too small, or a disk is full.
    NoSpace,
    /// Object storage cannot be reached, or it refused the request.
    Storage,
    Credentials,
    Password,
    NoRepository,
    /// Another process holds the lock of the repository.
    Locked,
    /// Data in the repository is damaged or missing.
    Damaged,
    /// The snapshot that should be restored, or the path of it, does not exist. Nothing was written.
    NotStored,
    /// A service that was called could not be reached, or its response was not a success.
    Call,
    Deadline,
    /// Cancelled by a signal.
    Stopped,
    Other,
}
