//! What the driver asks of a worker, as JSON on its command line. The worker prints `snapshot ID` for each snapshot that
//! it acknowledges and ends with 0, or says on standard error what failed and ends with 1; anything else is a defect.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The password of the second repository, which stays.
pub(super) const SECOND_PASSWORD: &str = "second";
/// The host in every snapshot, so that all of one kind are in one group.
pub(super) const HOST: &str = "torture";
/// The name of the file that a stream becomes.
pub(super) const STREAM: &str = "stream";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    pub main: PathBuf,
    pub second: PathBuf,
    /// Of the main repository.
    pub password: String,
    /// The host in the worker's locks: its own name, so that they can be removed by it.
    pub owner: String,
    /// Earlier workers whose locks may still be there.
    pub dead: Vec<String>,
    /// How long it waits for locks of others.
    pub wait_ms: u64,
    /// Each fault that happens is a line in this file.
    pub log: PathBuf,
    pub trouble: Trouble,
    pub operation: Operation,
}

/// What goes wrong between worker and store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    pub seed: u64,
    /// Of a thousand requests, so many go wrong.
    pub faults: u64,
    /// Of a thousand listings, so many are old; at most one of each directory.
    pub stale: u64,
    /// How often a request is tried.
    pub attempts: u32,
    pub death: Option<Death>,
}

/// The worker dies at a request: before it, or when it took effect and nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Death {
    /// From 1.
    pub request: u64,
    pub after: bool,
    /// Counts all requests, or those only that change something in this of `DIRECTORIES`.
    pub only: Option<usize>,
}

/// Where the objects of a repository are, and what only we know of.
pub(super) const DIRECTORIES: [&str; 6] = ["data/", "index/", "snapshots/", "locks/", "keys/", "lifeboat/"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Place {
    Main,
    Second,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    Backup {
        source: PathBuf,
    },
    /// `length` bytes that follow from `seed`.
    Stream {
        seed: u64,
        length: usize,
    },
    Prepared {
        source: PathBuf,
        end: End,
    },
    Forget {
        place: Place,
        snapshots: Vec<String>,
    },
    ForgetByPolicy {
        place: Place,
        keep_last: u64,
    },
    Prune {
        place: Place,
        grace_ms: u64,
        thorough: bool,
    },
    Restore {
        snapshot: String,
        target: PathBuf,
    },
    ChangePassword {
        password: String,
    },
    Copy {
        snapshots: Vec<String>,
    },
    /// By genuine restic, which knows nothing of faults.
    Restic {
        arguments: Vec<String>,
    },
}

/// What becomes of a prepared snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    Commit,
    Discard,
    Nothing,
}

impl Operation {
    /// For the summary.
    pub fn name(&self) -> String {
        match self {
            Self::Backup { .. } => "backup".to_owned(),
            Self::Stream { .. } => "backup of a stream".to_owned(),
            Self::Prepared { end: End::Commit, .. } => "prepared, committed".to_owned(),
            Self::Prepared { end: End::Discard, .. } => "prepared, discarded".to_owned(),
            Self::Prepared { end: End::Nothing, .. } => "prepared, left".to_owned(),
            Self::Forget { .. } => "forget by name".to_owned(),
            Self::ForgetByPolicy { .. } => "forget by policy".to_owned(),
            Self::Prune { grace_ms: 0, .. } => "prune with grace 0".to_owned(),
            Self::Prune { .. } => "prune with grace".to_owned(),
            Self::Restore { .. } => "restore".to_owned(),
            Self::ChangePassword { .. } => "key change".to_owned(),
            Self::Copy { .. } => "copy".to_owned(),
            Self::Restic { arguments } => format!("restic {}", arguments.first().map_or("", String::as_str)),
        }
    }
}
