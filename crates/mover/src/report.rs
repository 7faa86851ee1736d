//! The output of a mover: lines of JSON on its standard output while it works, a result of at most [`RESULT_LIMIT`]
//! bytes in its termination message, and the full report as an object beside the data. Written by the mover, read by
//! the server, which trusts it only if the snapshot with the task's UID exists.

mod failure;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use failure::{Cause, Failure};

/// The version of results with one part and of full reports. Every version of the server reads it.
pub const VERSION: u32 = 1;
/// The version of results with several parts.
pub const PARTS_VERSION: u32 = 2;
/// The largest termination message that Kubernetes keeps, in bytes.
pub const RESULT_LIMIT: usize = 4096;
/// The file in the mover's container to which the result is written.
pub const RESULT_FILE: &str = "/dev/termination-log";

/// One line of the mover's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "line")]
pub enum LogLine {
    /// Written at most once a second.
    Progress(Reading),
    /// The mover is waiting for a lock that another process holds.
    Waiting {
        holder: String,
        until: Option<String>,
    },
    Message {
        level: Level,
        text: String,
    },
    /// Snapshots that a `Look` task found, the newest first, in as many lines as necessary.
    Snapshots {
        snapshots: Vec<SnapshotLine>,
    },
}

/// A snapshot of the repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotLine {
    /// The snapshot's full ID.
    pub id: String,
    /// When the backup was started.
    pub time: Timestamp,
    pub host: String,
    pub paths: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The files and bytes that its backup read; None if the program that created it did not record them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Info,
    Warning,
    Error,
}

/// The progress of the work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Reading {
    /// The UID of the current part, if it is not the task's UID. The counts are those of this part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    pub step: String,
    pub files_done: u64,
    pub files_total: u64,
    pub bytes_done: u64,
    pub bytes_total: u64,
    /// False while the source is still being counted and the totals grow.
    pub total_known: bool,
    pub errors: u64,
}

/// How the task ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskResult {
    /// [`VERSION`] or [`PARTS_VERSION`].
    pub version: u32,
    /// The UID of the task.
    pub uid: String,
    pub outcome: Outcome,
}

impl TaskResult {
    pub fn new(uid: impl Into<String>, outcome: Outcome) -> Self {
        let version = if matches!(outcome, Outcome::Parts(_)) { PARTS_VERSION } else { VERSION };
        Self { version, uid: uid.into(), outcome }
    }

    /// The outcome of one part; None if there was no space for it in the result. A failure before the first part
    /// counts for every part.
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
    Initialized(Initialized),
    Looked(Looked),
    Forgotten(Forgotten),
    Called(Called),
    Failed(Failure),
    /// For a task with several parts; never for a part.
    Parts(PartResults),
}

impl Outcome {
    /// Whether everything was done. A restore that left something out has failed, however much was restored.
    pub fn is_done(&self) -> bool {
        match self {
            Self::Failed(_) => false,
            Self::Restored(restored) => restored.failed.count == 0,
            Self::BackedUp(_)
            | Self::Maintained(_)
            | Self::Initialized(_)
            | Self::Looked(_)
            | Self::Forgotten(_)
            | Self::Called(_) => true,
            Self::Parts(results) => {
                results.not_listed.failed == 0 && results.parts.iter().all(|part| part.outcome.is_done())
            }
        }
    }
}

/// The outcomes of the parts of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PartResults {
    /// In the order of the task.
    pub parts: Vec<PartResult>,
    /// The number of parts for which the result has no space. Their snapshots are in the repository, tagged with
    /// their UIDs.
    #[serde(skip_serializing_if = "NotListed::is_empty")]
    pub not_listed: NotListed,
}

/// The outcome of one part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartResult {
    /// The UID of the part.
    pub uid: String,
    pub outcome: Outcome,
}

/// The parts that are not listed, only counted.
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

/// The result of a backup: a snapshot was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackedUp {
    /// The snapshot's full ID.
    pub snapshot: String,
    pub files: u64,
    /// Bytes that were read, or that did not change since the previous snapshot.
    pub bytes: u64,
    /// Bytes that were added to the repository, before compression.
    pub bytes_added: u64,
    /// Bytes that were added to the repository, as stored.
    pub bytes_stored: u64,
    pub milliseconds: u64,
    /// The files, compared with the snapshot before; None from movers of versions that did not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared: Option<ComparedFiles>,
    /// Files that changed twice while they were read, or were deleted.
    #[serde(skip_serializing_if = "Listed::is_empty")]
    pub changed: Listed,
    /// Files that are missing in the snapshot. If it is not empty, the snapshot is incomplete.
    #[serde(skip_serializing_if = "Listed::is_empty")]
    pub unreadable: Listed,
}

/// The files of a snapshot, compared with the snapshot of the same host and paths before it. Without one all are new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ComparedFiles {
    pub new: u64,
    pub modified: u64,
    pub unmodified: u64,
}

/// The result of a restore: everything was written and, if the task asks for it, verified.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Restored {
    pub files: u64,
    pub bytes: u64,
    pub verified: bool,
    pub milliseconds: u64,
    /// Files that could not be written or differ from the snapshot. If it is not empty, the restore failed.
    #[serde(skip_serializing_if = "Listed::is_empty")]
    pub failed: Listed,
    /// Files that belong to the mover's user instead of their owner in the snapshot, because only root may change the
    /// owner of a file. Everything else about them is restored.
    #[serde(skip_serializing_if = "Listed::is_empty")]
    pub owners: Listed,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Maintained {
    pub bytes_freed: u64,
    pub packs_deleted: u64,
    /// The problems that the check found.
    #[serde(skip_serializing_if = "Listed::is_empty")]
    pub problems: Listed,
}

/// The result of an `Init`: the repository exists and the password opens it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Initialized {
    /// The ID in the repository's config.
    pub repository: String,
    /// False if it existed before.
    pub created: bool,
}

/// The result of a `Look`. The snapshots are in the mover's lines; the list is complete if these have `listed`
/// different ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Looked {
    /// The ID in the repository's config.
    pub repository: String,
    /// The number of snapshots in the repository.
    pub snapshots: u64,
    /// The number of snapshots in the lines.
    pub listed: u64,
    /// Snapshots that cannot be read; they are in no line.
    pub damaged: u64,
    /// The size of the repository's packs, as stored.
    pub bytes: u64,
    /// Why the states of the task were not written; None if they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub states_failed: Option<String>,
}

/// The result of a `Forget`: none of the snapshots exists any more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Forgotten {
    /// The number of snapshots that existed.
    pub removed: u64,
    /// Whether no snapshot is left.
    pub emptied: bool,
}

/// The result of a `Call` that succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Called {
    /// The status of the response; None for a TCP connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    pub milliseconds: u64,
}

/// Everything that a backup found, as gzipped JSON beside the data: the complete lists, of which the result has the
/// first few entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FullReport {
    /// [`VERSION`].
    pub version: u32,
    /// The UID of the part.
    pub uid: String,
    pub snapshot: String,
    pub host: String,
    pub files: u64,
    pub bytes: u64,
    pub bytes_added: u64,
    pub bytes_stored: u64,
    pub milliseconds: u64,
    /// Files that changed twice while they were read, or were deleted. The paths are those in the snapshot.
    pub changed: Vec<String>,
    pub unreadable: Vec<Unreadable>,
}

/// A file that is missing in a snapshot, and the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Unreadable {
    pub path: String,
    pub message: String,
}

/// The length of a list and its first entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Listed {
    pub count: u64,
    /// The first entries.
    pub first: Vec<String>,
}

impl Listed {
    fn is_empty(&self) -> bool {
        self.count == 0 && self.first.is_empty()
    }
}
