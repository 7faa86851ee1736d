//! `DataDownload`: the copying of one volume from a repository into a new volume.
//!
//! Created during a restore for each snapshot whose data was moved; carried out by the built-in mover, or by
//! another data mover that is installed in the cluster.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::data_movement::{DataMoveOperationProgress, DataMovePhase, NodeOs};
use crate::common::{GoDuration, Time};

/// Which snapshot to copy into which volume.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "velero.io",
    version = "v2alpha1",
    kind = "DataDownload",
    plural = "datadownloads",
    namespaced,
    status = "DataDownloadStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "dd",
    category = "lifeboat",
    doc = "The copying of a volume's data from backup storage into a new volume.",
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.phase",
        description = "Phase of the transfer"
    ),
    printcolumn(
        name = "Started",
        type_ = "date",
        json_path = ".status.startTimestamp",
        description = "Time since copying started"
    ),
    printcolumn(
        name = "Bytes Done",
        type_ = "integer",
        json_path = ".status.progress.bytesDone",
        format = "int64",
        description = "Bytes copied so far"
    ),
    printcolumn(
        name = "Total Bytes",
        type_ = "integer",
        json_path = ".status.progress.totalBytes",
        format = "int64",
        description = "Bytes to copy"
    ),
    printcolumn(
        name = "Storage Location",
        type_ = "string",
        json_path = ".spec.backupStorageLocation",
        description = "Where the data comes from"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since this object was created"
    ),
    printcolumn(
        name = "Node",
        type_ = "string",
        json_path = ".status.node",
        description = "The node of the mover"
    ),
    printcolumn(
        name = "Namespace",
        type_ = "string",
        json_path = ".spec.targetVolume.namespace",
        priority = 1,
        description = "Namespace of the claim"
    ),
    printcolumn(
        name = "PVC",
        type_ = "string",
        json_path = ".spec.targetVolume.pvc",
        priority = 1,
        description = "The claim to restore into"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.message",
        priority = 1,
        description = "Why it failed"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct DataDownloadSpec {
    /// The claim and volume to fill.
    pub target_volume: TargetVolumeSpec,
    /// Name of the BackupStorageLocation that holds the repository.
    pub backup_storage_location: String,
    /// Data mover that copies. Default, also for `velero`: the built-in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datamover: Option<String>,
    /// ID of the snapshot in the repository.
    #[serde(rename = "snapshotID")]
    pub snapshot_id: String,
    /// Namespace from which the volume was backed up. It differs from the target's if namespaces are mapped.
    pub source_namespace: String,
    /// Settings of the data mover, from `uploaderConfig`. The built-in one reads ParallelFilesDownload, WriteSparseFiles. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_mover_config: Option<BTreeMap<String, String>>,
    /// Set to true to cancel the transfer. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel: Option<bool>,
    /// How long single steps of the preparation may take, as a Go duration.
    pub operation_timeout: GoDuration,
    /// Operating system of the node that copies. Default: any.
    #[serde(rename = "nodeOS", skip_serializing_if = "Option::is_none")]
    pub node_os: Option<NodeOs>,
    /// Size of the snapshot in bytes, with the full size of every file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_size: Option<i64>,
}

/// The claim and volume that a restore created.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetVolumeSpec {
    /// Name of the claim.
    pub pvc: String,
    /// Name of the volume; empty if it is created later.
    pub pv: String,
    /// Namespace of the claim.
    pub namespace: String,
}

/// Progress and result of the transfer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DataDownloadStatus {
    /// Phase of the transfer. Completed, Failed and Canceled are final.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<DataMovePhase>,
    /// Why the transfer failed, or what it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When copying started, by the server's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_timestamp: Option<Time>,
    /// When the transfer ended, successfully or not, by the server's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_timestamp: Option<Time>,
    /// How much has been copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<DataMoveOperationProgress>,
    /// Node on which the mover runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Name of the node that prepared the volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_by_node: Option<String>,
    /// When the server accepted the work, by its own clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_timestamp: Option<Time>,
}

impl DataDownload {
    /// The phase; `New` if none is set.
    pub fn phase(&self) -> &DataMovePhase {
        self.status.as_ref().and_then(|status| status.phase.as_ref()).unwrap_or(&DataMovePhase::New)
    }
}
