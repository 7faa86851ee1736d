//! What a mover reports: lines of JSON on its standard output while it works, a result of at most [`RESULT_LIMIT`] bytes
//! in its termination message, and the full report as an object beside the data. Written by the mover, read by the
//! server, which believes none of it without the snapshot that carries the task's UID.

use serde::{Deserialize, Serialize};

/// The version of results of one part, and of full reports. Servers of every version read it.
pub const VERSION: u32 = 1;
/// The version of results of several parts.
pub const PARTS_VERSION: u32 = 2;
/// What Kubernetes keeps of a termination message.
pub const RESULT_LIMIT: usize = 4096;
/// The file of the result in a mover's container.
pub const RESULT_FILE: &str = "/dev/termination-log";

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "line")]
pub enum Line {
    /// At most one a second.
    Progress(Reading),
    /// The mover waits for the lock of another process.
    Waiting {
        holder: String,
        until: Option<String>,
    },
    Message {
        level: Level,
        text: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Info,
    Warning,
    Error,
}

/// How far the work is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Reading {
    /// The UID of the part that is at work, where it is not the task's. The counts are this part's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    pub step: String,
    pub files_done: u64,
    pub files_total: u64,
    pub bytes_done: u64,
    pub bytes_total: u64,
    /// While the source is still counted the totals grow.
    pub total_known: bool,
    pub errors: u64,
}

/// How the task ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskResult {
    /// [`VERSION`] or [`PARTS_VERSION`].
    pub version: u32,
    /// The task's.
    pub uid: String,
    pub outcome: Outcome,
}

impl TaskResult {
    pub fn new(uid: impl Into<String>, outcome: Outcome) -> Self {
        let version = if matches!(outcome, Outcome::Parts(_)) { PARTS_VERSION } else { VERSION };
        Self { version, uid: uid.into(), outcome }
    }

    /// How one part ended; none if the result had no room for it. What failed before the first part failed for each.
    pub fn of_part(&self, uid: &str) -> Option<&Outcome> {
        match &self.outcome {
            Outcome::Parts(results) => {
                results.parts.iter().find(|part| part.uid == uid).map(|part| &part.outcome)
            }
            failed @ Outcome::Failed(_) => Some(failed),
            outcome => (self.uid == uid).then_some(outcome),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Outcome {
    BackedUp(BackedUp),
    Restored(Restored),
    Maintained(Maintained),
    Failed(Failure),
    /// Of a task with several parts; never of a part.
    Parts(PartResults),
}

impl Outcome {
    /// Whether everything was done. A restore that left something out failed, however much of it is there.
    pub fn is_done(&self) -> bool {
        match self {
            Self::Failed(_) => false,
            Self::Restored(restored) => restored.failed.count == 0,
            Self::BackedUp(_) | Self::Maintained(_) => true,
            Self::Parts(results) => {
                results.not_listed.failed == 0 && results.parts.iter().all(|part| part.outcome.is_done())
            }
        }
    }
}

/// How each part of a task ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PartResults {
    /// In the order of the task.
    pub parts: Vec<PartResult>,
    /// Parts that the result has no room for. Their snapshots are in the repository, tagged with their UIDs.
    #[serde(skip_serializing_if = "NotListed::is_empty")]
    pub not_listed: NotListed,
}

/// How one part ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartResult {
    /// The part's.
    pub uid: String,
    pub outcome: Outcome,
}

/// Parts that are only counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NotListed {
    pub done: u64,
    pub failed: u64,
}

impl NotListed {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A snapshot was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackedUp {
    /// The snapshot's full ID.
    pub snapshot: String,
    pub files: u64,
    /// What was read or taken over from the snapshot before.
    pub bytes: u64,
    /// What the repository grew by, before compression.
    pub bytes_added: u64,
    /// What the repository grew by, as it is stored.
    pub bytes_stored: u64,
    pub milliseconds: u64,
    /// Files that changed while they were read, twice; or went away.
    #[serde(skip_serializing_if = "Listed::is_empty")]
    pub changed: Listed,
    /// What is missing in the snapshot. Not empty: it is incomplete.
    #[serde(skip_serializing_if = "Listed::is_empty")]
    pub unreadable: Listed,
}

/// Everything was written and, where the task asks for it, found equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Restored {
    pub files: u64,
    pub bytes: u64,
    pub verified: bool,
    pub milliseconds: u64,
    /// What could not be written, or is not equal. Not empty: it failed.
    #[serde(skip_serializing_if = "Listed::is_empty")]
    pub failed: Listed,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Maintained {
    pub bytes_freed: u64,
    pub packs_deleted: u64,
    /// What the check found wrong.
    #[serde(skip_serializing_if = "Listed::is_empty")]
    pub problems: Listed,
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    pub cause: Cause,
    /// For people: what was attempted, why it failed, what to do.
    pub message: String,
}

/// Why a task failed, as one of few values for status, events and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cause {
    /// The task file cannot be understood.
    Task,
    /// The directory is not the volume that is meant, or it went away.
    WrongVolume,
    /// Reading the source.
    Source,
    /// Writing the target.
    Target,
    /// The target is too small, or a disk is full.
    NoSpace,
    /// Object storage: out of reach, or it refused.
    Storage,
    Credentials,
    Password,
    NoRepository,
    /// Another process holds the lock of the repository.
    Locked,
    /// What the repository holds is damaged or missing.
    Damaged,
    Deadline,
    /// Cancelled by a signal.
    Stopped,
    Other,
}

/// Everything that a backup found, as gzipped JSON beside the data: the whole lists of which the result has the first few names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FullReport {
    /// [`VERSION`].
    pub version: u32,
    /// The part's.
    pub uid: String,
    pub snapshot: String,
    pub host: String,
    pub files: u64,
    pub bytes: u64,
    pub bytes_added: u64,
    pub bytes_stored: u64,
    pub milliseconds: u64,
    /// Files that changed while they were read, twice; or went away. Paths are those of the snapshot.
    pub changed: Vec<String>,
    pub unreadable: Vec<Unreadable>,
}

/// What is missing in a snapshot, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Unreadable {
    pub path: String,
    pub message: String,
}

/// A list of which a few entries are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Listed {
    pub count: u64,
    /// The first ones.
    pub first: Vec<String>,
}

impl Listed {
    fn is_empty(&self) -> bool {
        self.count == 0 && self.first.is_empty()
    }
}
