//! Volume snapshotters.

use std::collections::BTreeMap;

use async_trait::async_trait;

use crate::{Config, Object, Result, VolumeProgress};

/// The volume to snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotRequest {
    /// The ID from [`VolumeSnapshotter::volume_id`].
    pub volume_id: String,
    /// Empty if the volume has no zone.
    pub zone: String,
    /// Store them with the snapshot. `velero.io/backup` names the backup, `velero.io/pv` the PersistentVolume.
    pub tags: BTreeMap<String, String>,
}

/// The snapshot from which to create a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeRequest {
    pub snapshot_id: String,
    pub zone: String,
    /// The description of the original volume.
    pub info: VolumeInfo,
}

/// A description of a volume; passed back when a volume is created from its snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeInfo {
    pub volume_type: String,
    pub iops: Option<i64>,
}

/// Snapshots of one provider's volumes.
///
/// A snapshotter that reports progress needs no access to Kubernetes for it: it is polled while its calls run, and
/// after them until the operation has ended, and Lifeboat shows its answers as VolumePluginBackup and
/// VolumePluginRestore. Velero does not poll.
#[async_trait]
pub trait VolumeSnapshotter: Send + Sync + 'static {
    /// The settings of a VolumeSnapshotLocation. Called before every other method, and possibly again. Refuse unknown
    /// keys, because they are probably typing errors.
    async fn init(&self, config: Config) -> Result<()>;
    /// The provider's ID of a PersistentVolume's volume; None if the volume is not one of this provider's.
    async fn volume_id(&self, volume: &Object) -> Result<Option<String>>;
    /// The PersistentVolume with the ID of another volume.
    async fn set_volume_id(&self, volume: Object, volume_id: &str) -> Result<Object>;
    async fn volume_info(&self, _volume_id: &str, _zone: &str) -> Result<VolumeInfo> {
        Ok(VolumeInfo::default())
    }
    /// Creates a snapshot and returns its ID. It may return when the content is fixed, and continue in the background,
    /// or when all data is stored. The same request may be repeated after a crash.
    async fn create_snapshot(&self, request: SnapshotRequest) -> Result<String>;
    /// A missing snapshot is not an error.
    async fn delete_snapshot(&self, snapshot_id: &str) -> Result<()>;
    /// Creates a volume from a snapshot and returns its ID.
    async fn create_volume(&self, request: VolumeRequest) -> Result<String>;

    /// Whether the two methods below are implemented.
    fn reports_progress(&self) -> bool {
        false
    }
    /// The progress of a snapshot, identified by its ID, or by the request while the call runs. None if it is unknown.
    async fn snapshot_progress(
        &self,
        _snapshot_id: Option<&str>,
        _request: &SnapshotRequest,
    ) -> Result<Option<VolumeProgress>> {
        Ok(None)
    }
    /// The progress of a volume, identified by its snapshot, and by its ID once it has one. None if it is unknown.
    async fn restore_progress(
        &self,
        _snapshot_id: &str,
        _volume_id: Option<&str>,
    ) -> Result<Option<VolumeProgress>> {
        Ok(None)
    }
}
