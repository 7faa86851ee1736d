//! Volume snapshotters.

use std::collections::BTreeMap;

use async_trait::async_trait;

use crate::{Config, Object, Result, VolumeProgress};

/// What is to be snapshotted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotRequest {
    /// What [`VolumeSnapshotter::volume_id`] said.
    pub volume_id: String,
    /// Empty where the volume has no zone.
    pub zone: String,
    /// Keep them with the snapshot. `velero.io/backup` names the backup, `velero.io/pv` the PersistentVolume.
    pub tags: BTreeMap<String, String>,
}

/// What a volume is to be made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeRequest {
    pub snapshot_id: String,
    pub zone: String,
    /// What was said of the original volume.
    pub info: VolumeInfo,
}

/// What there is to say of a volume; comes back when a volume is made from its snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeInfo {
    pub volume_type: String,
    pub iops: Option<i64>,
}

/// Snapshots of one provider's volumes.
///
/// A snapshotter that reports progress needs nothing of Kubernetes for it: it is asked while its calls run, and after them
/// until the operation has ended, and Lifeboat shows what it says as VolumePluginBackup and VolumePluginRestore. Velero
/// never asks.
#[async_trait]
pub trait VolumeSnapshotter: Send + Sync + 'static {
    /// The settings of a VolumeSnapshotLocation. Comes before every other call, and may come again. Refuse keys that you
    /// do not know: they are somebody's typing error.
    async fn init(&self, config: Config) -> Result<()>;
    /// The provider's name for a PersistentVolume's volume; None where it is not one of yours.
    async fn volume_id(&self, volume: &Object) -> Result<Option<String>>;
    /// The PersistentVolume with another volume in it.
    async fn set_volume_id(&self, volume: Object, volume_id: &str) -> Result<Object>;
    async fn volume_info(&self, _volume_id: &str, _zone: &str) -> Result<VolumeInfo> {
        Ok(VolumeInfo::default())
    }
    /// Makes a snapshot and returns its name. Return when it is fixed in time, and go on in the background, or when all of
    /// it is stored: as you like. The same request may come again after a crash.
    async fn create_snapshot(&self, request: SnapshotRequest) -> Result<String>;
    /// One that is not there is no error.
    async fn delete_snapshot(&self, snapshot_id: &str) -> Result<()>;
    /// Makes a volume from a snapshot and returns its name.
    async fn create_volume(&self, request: VolumeRequest) -> Result<String>;

    /// Whether the two methods below are worth asking.
    fn reports_progress(&self) -> bool {
        false
    }
    /// How far a snapshot is: by its name, or by the request of the call that still runs. None for an unknown one.
    async fn snapshot_progress(
        &self,
        _snapshot_id: Option<&str>,
        _request: &SnapshotRequest,
    ) -> Result<Option<VolumeProgress>> {
        Ok(None)
    }
    /// How far a volume is: by its snapshot, and by its name once it has one. None for an unknown one.
    async fn restore_progress(
        &self,
        _snapshot_id: &str,
        _volume_id: Option<&str>,
    ) -> Result<Option<VolumeProgress>> {
        Ok(None)
    }
}
