//! A snapshot: its tree, time and origin. The JSON is restic's, field for field.

use jiff::Zoned;
use serde::{Deserialize, Serialize};

use crate::id::{BlobId, SnapshotId};

/// The content of a snapshot file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// When the backup was started, or the value of `--time`; with the UTC offset of the machine that made it.
    #[serde(with = "crate::time::rfc3339")]
    pub time: Zoned,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SnapshotId>,
    pub tree: BlobId,
    pub paths: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub username: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub uid: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub gid: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_empty")]
    pub excludes: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_empty")]
    pub tags: Vec<String>,
    /// The snapshot of which this one is a modified copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original: Option<SnapshotId>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub program_version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
}

impl Snapshot {
    /// When its backup started: `time` may be any that the user gave, but old versions of restic recorded no other.
    pub fn started(&self) -> &Zoned {
        self.summary.as_ref().map_or(&self.time, |summary| &summary.backup_start)
    }
}

/// The counts of the backup that made the snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    #[serde(with = "crate::time::rfc3339")]
    pub backup_start: Zoned,
    #[serde(with = "crate::time::rfc3339")]
    pub backup_end: Zoned,
    #[serde(flatten)]
    pub counts: Counts,
}

/// The figures of a summary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub files_new: u64,
    pub files_changed: u64,
    pub files_unmodified: u64,
    pub dirs_new: u64,
    pub dirs_changed: u64,
    pub dirs_unmodified: u64,
    /// New blobs of each kind.
    pub data_blobs: u64,
    pub tree_blobs: u64,
    /// Plain size of new blobs in bytes, and their size in the repository.
    pub data_added: u64,
    pub data_added_packed: u64,
    pub total_files_processed: u64,
    pub total_bytes_processed: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Go writes an empty list as null in some cases.
fn null_is_empty<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Option::<Vec<String>>::deserialize(deserializer).map(Option::unwrap_or_default)
}
