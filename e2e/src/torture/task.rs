//! The task of a worker, as JSON on its command line. The worker prints `snapshot ID` for each snapshot that it
//! acknowledges and exits with 0, or prints the error on standard error and exits with 1; anything else is a defect.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The password of the second repository, which does not change.
pub(super) const SECOND_PASSWORD: &str = "second";
/// The host of every snapshot, so that all of one kind are in one group.
pub(super) const HOST: &str = "torture";
/// The file name of a stream's snapshot.
pub(super) const STREAM: &str = "stream";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// Both locations are in restic's syntax.
    pub main: String,
    pub second: String,
    /// The password of the main repository.
    pub password: String,
    /// The host in the worker's locks: a unique name, by which they can be removed.
    pub owner: String,
    /// Earlier workers whose locks may still exist.
    pub dead: Vec<String>,
    /// How long it waits for other locks.
    pub wait_ms: u64,
    /// Each injected fault is recorded as a line in this file.
    pub log: PathBuf,
    pub trouble: Trouble,
    pub operation: Operation,
}

/// Faults between worker and store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    pub seed: u64,
    /// How many of a thousand requests fail.
    pub faults: u64,
    /// How many of a thousand listings are out of date; at most one of each directory.
    pub stale: u64,
    /// How often a request is attempted.
    pub attempts: u32,
    pub death: Option<Death>,
}

/// The worker dies at a request: before it, or after it took effect and before its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Death {
    /// The number of the request, from 1.
    pub request: u64,
    pub after: bool,
    /// Counts all requests, or only those that change objects in this one of `DIRECTORIES`.
    pub only: Option<usize>,
}

/// The directories of a repository, including those that only our format has.
pub(super) const DIRECTORIES: [&str; 6] = ["data/", "index/", "snapshots/", "locks/", "keys/", "lifeboat/"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WhichRepository {
    Main,
    Second,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    Backup {
        source: PathBuf,
    },
    /// `length` bytes derived from `seed`.
    Stream {
        seed: u64,
        length: usize,
    },
    Prepared {
        source: PathBuf,
        end: End,
    },
    Forget {
        place: WhichRepository,
        snapshots: Vec<String>,
    },
    ForgetByPolicy {
        place: WhichRepository,
        keep_last: u64,
    },
    Prune {
        place: WhichRepository,
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
    /// Run by genuine restic, without faults.
    Restic {
        arguments: Vec<String>,
    },
}

/// What happens to a prepared snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    Commit,
    Discard,
    Nothing,
}

impl Operation {
    /// The name in the summary.
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
