//! `NAME-volumeinfo.json.gz` and `NAME-volumesnapshots.json.gz`: the result for each volume. Phases and methods are
//! plain strings here, because a reader must accept the values of newer writers.

use std::collections::BTreeMap;

use lifeboat_api::common::Time;
use serde::{Deserialize, Serialize};

use super::is_zero;

/// One volume of a backup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupVolumeInfo {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pvc_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pvc_namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pv_name: String,
    /// `NativeSnapshot`, `PodVolumeBackup`, `CSISnapshot`; empty for a volume that was skipped.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub backup_method: String,
    pub snapshot_data_moved: bool,
    pub preserve_local_snapshot: bool,
    pub skipped: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub skipped_reason: String,
    /// Whether someone decided that the volume is skipped: the spec, a policy or an annotation. Lifeboat's own: Velero
    /// does not read it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub declined: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_timestamp: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_timestamp: Option<Time>,
    /// `succeeded` or `failed`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub result: String,
    /// `Snapshot` (all files at one point in time), `Quiesced` (the pod's pre hooks had succeeded) or `Live`.
    /// Lifeboat's own: Velero does not read it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub consistency: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csi_snapshot_info: Option<CsiSnapshotInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_data_movement_info: Option<DataMovementInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub native_snapshot_info: Option<NativeSnapshotInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvb_info: Option<PodVolumeInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pv_info: Option<VolumeAttributes>,
}

/// One volume of a restore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RestoreVolumeInfo {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pvc_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pvc_namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pv_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub restore_method: String,
    pub snapshot_data_moved: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csi_snapshot_info: Option<CsiSnapshotInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_data_movement_info: Option<DataMovementInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub native_snapshot_info: Option<NativeSnapshotInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvr_info: Option<PodVolumeInfo>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiSnapshotInfo {
    pub snapshot_handle: String,
    pub size: i64,
    pub driver: String,
    pub vsc_name: String,
    #[serde(rename = "operationID", skip_serializing_if = "String::is_empty")]
    pub operation_id: String,
    #[serde(rename = "ReadyToUse")]
    pub ready_to_use: Option<bool>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub volume_group_snapshot_handle: String,
    /// Proves that the backup made the snapshot. Lifeboat's own: Velero does not read it.
    #[serde(rename = "lifeboatProof", skip_serializing_if = "String::is_empty")]
    pub proof: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataMovementInfo {
    pub data_mover: String,
    pub uploader_type: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub retained_snapshot: String,
    pub snapshot_handle: String,
    #[serde(rename = "operationID")]
    pub operation_id: String,
    pub size: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub incremental_size: i64,
    #[serde(rename = "Phase")]
    pub phase: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NativeSnapshotInfo {
    pub snapshot_handle: String,
    pub volume_type: String,
    #[serde(rename = "volumeAZ")]
    pub volume_az: String,
    /// A number, written as a string.
    pub iops: String,
    #[serde(rename = "Phase")]
    pub phase: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodVolumeInfo {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub snapshot_handle: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub size: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub incremental_size: i64,
    pub uploader_type: String,
    pub volume_name: String,
    pub pod_name: String,
    pub pod_namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    #[serde(rename = "Phase")]
    pub phase: String,
}

/// The attributes that a newly created volume must get from the old one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeAttributes {
    pub reclaim_policy: String,
    pub labels: Option<BTreeMap<String, String>>,
}

/// A snapshot that was taken by a volume snapshotter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NativeSnapshot {
    pub spec: NativeSnapshotSpec,
    pub status: NativeSnapshotStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NativeSnapshotSpec {
    pub backup_name: String,
    #[serde(rename = "backupUID")]
    pub backup_uid: String,
    pub location: String,
    pub persistent_volume_name: String,
    #[serde(rename = "providerVolumeID")]
    pub provider_volume_id: String,
    pub volume_type: String,
    #[serde(rename = "volumeAZ", skip_serializing_if = "String::is_empty")]
    pub volume_az: String,
    #[serde(rename = "volumeIOPS", skip_serializing_if = "Option::is_none")]
    pub volume_iops: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NativeSnapshotStatus {
    #[serde(rename = "providerSnapshotID", skip_serializing_if = "String::is_empty")]
    pub provider_snapshot_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Proves that the backup made the snapshot. Lifeboat's own: Velero does not read it.
    #[serde(rename = "lifeboatProof", skip_serializing_if = "String::is_empty")]
    pub proof: String,
}
