//! `PodVolumeRestore`: the copying of one volume from a repository into a restored pod.
//!
//! Created by the restore controller for each such volume, carried out by a mover, shown by `restore describe`.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::data_movement::{DataMoveOperationProgress, DataMovePhase, UploaderType};
use crate::common::{ObjectReference, Time, atomic};

/// Which snapshot to copy into which volume of which pod.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "velero.io",
    version = "v1",
    kind = "PodVolumeRestore",
    plural = "podvolumerestores",
    namespaced,
    status = "PodVolumeRestoreStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "pvr",
    category = "lifeboat",
    doc = "The restore of one volume of a pod, file by file.",
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
        name = "Uploader Type",
        type_ = "string",
        json_path = ".spec.uploaderType",
        description = "The program that copies"
    ),
    printcolumn(
        name = "Namespace",
        type_ = "string",
        json_path = ".spec.pod.namespace",
        priority = 1,
        description = "Namespace of the pod"
    ),
    printcolumn(
        name = "Pod",
        type_ = "string",
        json_path = ".spec.pod.name",
        priority = 1,
        description = "The pod"
    ),
    printcolumn(
        name = "Volume",
        type_ = "string",
        json_path = ".spec.volume",
        priority = 1,
        description = "The volume, by its name in the pod"
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
pub struct PodVolumeRestoreSpec {
    /// The pod whose volume is filled.
    #[schemars(transform = atomic)]
    pub pod: ObjectReference,
    /// Name of the volume in the pod's specification.
    pub volume: String,
    /// Name of the BackupStorageLocation that holds the repository.
    pub backup_storage_location: String,
    /// Address of the repository in the storage.
    pub repo_identifier: String,
    /// The program that copies: `kopia` or `restic`. Empty in old objects, which means restic. Lifeboat
    /// supports restic only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uploader_type: Option<UploaderType>,
    /// ID of the snapshot in the repository.
    #[serde(rename = "snapshotID")]
    pub snapshot_id: String,
    /// Namespace from which the volume was backed up; it determines the repository.
    pub source_namespace: String,
    /// Settings of the mover, from `uploaderConfig`: ParallelFilesDownload, WriteSparseFiles. Others are ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uploader_settings: Option<BTreeMap<String, String>>,
    /// Set to true to cancel the transfer. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel: Option<bool>,
    /// Size of the snapshot in bytes, with the full size of every file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_size: Option<i64>,
}

/// Progress and result of the transfer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodVolumeRestoreStatus {
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
    /// When the server accepted the work, by its own clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_timestamp: Option<Time>,
    /// Node on which the mover runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

impl PodVolumeRestore {
    /// The phase; `New` if none is set.
    pub fn phase(&self) -> &DataMovePhase {
        self.status.as_ref().and_then(|status| status.phase.as_ref()).unwrap_or(&DataMovePhase::New)
    }
}
