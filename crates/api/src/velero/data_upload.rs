//! `DataUpload`: the copying of one volume snapshot into a repository.
//!
//! Created during a backup for each snapshot whose data is to be moved; carried out by the built-in mover, or
//! by another data mover that is installed in the cluster.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::data_movement::{DataMoveOperationProgress, DataMovePhase, NodeOs};
use crate::common::{GoDuration, Time, string_enum};

/// Which snapshot to copy, and where to.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "velero.io",
    version = "v2alpha1",
    kind = "DataUpload",
    plural = "datauploads",
    namespaced,
    status = "DataUploadStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "du",
    category = "lifeboat",
    doc = "The copying of a volume snapshot's data into backup storage.",
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
        name = "Incremental Bytes",
        type_ = "integer",
        json_path = ".status.incrementalBytes",
        format = "int64",
        priority = 10,
        description = "New bytes"
    ),
    printcolumn(
        name = "Storage Location",
        type_ = "string",
        json_path = ".spec.backupStorageLocation",
        description = "Where the data is stored"
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
        json_path = ".spec.sourceNamespace",
        priority = 1,
        description = "Namespace of the claim"
    ),
    printcolumn(
        name = "PVC",
        type_ = "string",
        json_path = ".spec.sourcePVC",
        priority = 1,
        description = "The claim whose snapshot is copied"
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
pub struct DataUploadSpec {
    /// Type of the snapshot. Only `CSI` is supported.
    pub snapshot_type: SnapshotType,
    /// The CSI snapshot, if the type is `CSI`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csi_snapshot: Option<CsiSnapshotSpec>,
    /// Name of the claim that was snapshotted.
    #[serde(rename = "sourcePVC")]
    pub source_pvc: String,
    /// Data mover that copies. Default, also for `velero`: the built-in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datamover: Option<String>,
    /// Name of the BackupStorageLocation that holds the repository.
    pub backup_storage_location: String,
    /// Namespace of the claim and of its snapshot.
    pub source_namespace: String,
    /// Settings of the data mover, from `uploaderConfig`. The built-in one reads ParallelFilesUpload. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_mover_config: Option<BTreeMap<String, String>>,
    /// Set to true to cancel the transfer. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel: Option<bool>,
    /// How long single steps of the preparation may take, as a Go duration.
    pub operation_timeout: GoDuration,
}

string_enum! {
    /// Type of a snapshot. Upstream accepts any string; so does the schema.
    #[derive(Default)]
    pub open enum SnapshotType {
        /// Taken by a CSI driver.
        #[default]
        Csi = "CSI",
    }
}

/// A snapshot taken by a CSI driver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CsiSnapshotSpec {
    /// Name of the VolumeSnapshot.
    pub volume_snapshot: String,
    /// Storage class of the claim that was snapshotted.
    pub storage_class: String,
    /// Class of the VolumeSnapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_class: Option<String>,
    /// Name of the CSI driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
}

/// Progress and result of the transfer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DataUploadStatus {
    /// Phase of the transfer. Completed, Failed and Canceled are final.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<DataMovePhase>,
    /// Path of the volume in the mover's pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// ID of the snapshot in the repository.
    #[serde(rename = "snapshotID", skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    /// Data that the data mover needs when the volume is restored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_mover_result: Option<BTreeMap<String, String>>,
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
    /// Bytes that were new or changed since the previous backup of this volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incremental_bytes: Option<i64>,
    /// Node on which the mover runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Operating system of that node.
    #[serde(rename = "nodeOS", skip_serializing_if = "Option::is_none")]
    pub node_os: Option<NodeOs>,
    /// Name of the node that prepared the volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_by_node: Option<String>,
    /// When the server accepted the work, by its own clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_timestamp: Option<Time>,
}

impl DataUpload {
    /// The phase; `New` if none is set.
    pub fn phase(&self) -> &DataMovePhase {
        self.status.as_ref().and_then(|status| status.phase.as_ref()).unwrap_or(&DataMovePhase::New)
    }
}
