//! Volume snapshotters: the trait that plugin processes implement, and the progress that they report. Created by
//! [`Session::volume_snapshotter`](crate::host::Session::volume_snapshotter) for one location.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use lifeboat_plan::velero::volume_plugin::is_bad;
use serde_json::Value;

use crate::ActionError;

/// A provider's description of a volume; stored with the snapshot and passed back when a volume is created from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeInfo {
    pub volume_type: String,
    pub iops: Option<i64>,
}

/// The volume to snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotRequest {
    /// The ID from [`VolumeSnapshotter::volume_id`].
    pub volume_id: String,
    /// Empty if the volume has no zone.
    pub zone: String,
    /// Stored with the snapshot: `velero.io/backup`, `velero.io/pv`, the labels of the backup.
    pub tags: BTreeMap<String, String>,
}

/// The snapshot from which to create a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeRequest {
    pub snapshot_id: String,
    pub zone: String,
    pub info: VolumeInfo,
}

/// The snapshot or volume whose progress is requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgressOf {
    /// A snapshot that CreateSnapshot has not returned yet.
    Snapshotting(SnapshotRequest),
    /// A snapshot that CreateSnapshot has returned.
    Snapshot { snapshot_id: String },
    /// A volume that is created from a snapshot; with its ID once CreateVolumeFromSnapshot has returned it.
    Restore { snapshot_id: String, volume_id: Option<String> },
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressEnd {
    Well,
    Badly,
}

/// The progress of a snapshot or a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeProgress {
    /// Any text; empty while the operation continues.
    pub phase: String,
    pub message: String,
    pub bytes_done: i64,
    /// Zero if it is unknown.
    pub total_bytes: i64,
    pub started: Option<Timestamp>,
    pub completed: Option<Timestamp>,
    pub plugin_specific: BTreeMap<String, String>,
}

impl VolumeProgress {
    /// Whether the operation has ended: it has a completion time, or its phase says so in any spelling.
    pub fn ended(&self) -> Option<ProgressEnd> {
        match self.phase.to_lowercase().as_str() {
            "failed" => Some(ProgressEnd::Badly),
            "completed" => Some(ProgressEnd::Well),
            // A failed operation has a completion time too.
            other if is_bad(other) => self.completed.map(|_| ProgressEnd::Badly),
            _ => self.completed.map(|_| ProgressEnd::Well),
        }
    }

    /// This progress as it can be shown after `previous`: never backwards, never beyond its total. Also returns a
    /// message if it had to be corrected.
    #[must_use]
    pub fn after(mut self, previous: Option<&Self>) -> (Self, Option<String>) {
        let said = (self.bytes_done, self.total_bytes);
        let floor = previous.map_or(0, |previous| previous.bytes_done);
        self.total_bytes = self.total_bytes.max(0);
        self.bytes_done = self.bytes_done.max(floor);
        if self.total_bytes > 0 && self.bytes_done > self.total_bytes {
            // The bytes shown before are kept, and the total grows if necessary.
            self.bytes_done = self.total_bytes.max(floor);
            self.total_bytes = self.bytes_done;
        }
        let complaint = (said != (self.bytes_done, self.total_bytes)).then(|| {
            format!(
                "the plugin reported {} of {} bytes after {floor}; {} of {} are shown",
                said.0, said.1, self.bytes_done, self.total_bytes
            )
        });
        (self, complaint)
    }
}

/// Snapshots of one provider's volumes, configured for one location.
#[async_trait]
pub trait VolumeSnapshotter: Send + Sync {
    fn name(&self) -> &str;
    /// The provider's ID of a PersistentVolume's volume; None if the volume is not one of this provider's.
    async fn volume_id(&self, volume: &Value) -> Result<Option<String>, ActionError>;
    /// The PersistentVolume with the ID of another volume.
    async fn with_volume_id(&self, volume: &Value, volume_id: &str) -> Result<Value, ActionError>;
    async fn volume_info(&self, volume_id: &str, zone: &str) -> Result<VolumeInfo, ActionError>;
    /// Creates a snapshot and returns the provider's ID for it. May take hours.
    async fn create_snapshot(&self, request: &SnapshotRequest) -> Result<String, ActionError>;
    async fn delete_snapshot(&self, snapshot_id: &str) -> Result<(), ActionError>;
    /// Creates a volume and returns the provider's ID for it. May take hours.
    async fn create_volume(&self, request: &VolumeRequest) -> Result<String, ActionError>;
    /// Whether the snapshotter implements [`Self::progress`].
    async fn reports_progress(&self) -> Result<bool, ActionError> {
        Ok(false)
    }
    /// None if the snapshotter does not know the operation, or reports no progress.
    async fn progress(&self, _of: &ProgressOf) -> Result<Option<VolumeProgress>, ActionError> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn progress(bytes_done: i64, total_bytes: i64) -> VolumeProgress {
        VolumeProgress { bytes_done, total_bytes, ..VolumeProgress::default() }
    }

    #[rstest]
    #[case::forward((5, 10), (7, 10), (7, 10), false)]
    #[case::backwards((5, 10), (3, 10), (5, 10), true)]
    #[case::beyond((5, 10), (12, 10), (10, 10), true)]
    #[case::negative((0, 0), (-3, -1), (0, 0), true)]
    #[case::total_grows((5, 10), (6, 20), (6, 20), false)]
    #[case::total_shrinks_below((8, 10), (8, 4), (8, 8), true)]
    #[case::no_total((5, 0), (9, 0), (9, 0), false)]
    fn progress_is_shown_so_that_it_makes_sense(
        #[case] before: (i64, i64),
        #[case] said: (i64, i64),
        #[case] shown: (i64, i64),
        #[case] wrong: bool,
    ) {
        let previous = progress(before.0, before.1);
        let (after, complaint) = progress(said.0, said.1).after(Some(&previous));
        assert_eq!((after.bytes_done, after.total_bytes), shown);
        assert_eq!(complaint.is_some(), wrong, "{complaint:?}");
    }

    #[test]
    fn the_end_is_a_word_or_a_time() {
        let phase = |word: &str| VolumeProgress { phase: word.into(), ..VolumeProgress::default() };
        assert_eq!(phase("COMPLETED").ended(), Some(ProgressEnd::Well));
        assert_eq!(phase("failed").ended(), Some(ProgressEnd::Badly));
        assert_eq!(phase("Uploading").ended(), None);
        let timed = VolumeProgress { completed: Some(Timestamp::UNIX_EPOCH), ..VolumeProgress::default() };
        assert_eq!(timed.ended(), Some(ProgressEnd::Well));
        assert_eq!(VolumeProgress { phase: "Error".into(), ..timed }.ended(), Some(ProgressEnd::Badly));
    }
}
