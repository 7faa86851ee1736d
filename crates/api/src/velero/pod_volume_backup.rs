//! `PodVolumeBackup`: the copying of one volume of a running pod into a repository.
//!
//! Created by the backup controller for each such volume, carried out by a mover, shown by `backup describe`.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::data_movement::{DataMoveOperationProgress, DataMovePhase, UploaderType};
use crate::common::{ObjectReference, Time, atomic};

/// Which volume of which pod to copy, and where to.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "velero.io",
    version = "v1",
    kind = "PodVolumeBackup",
    plural = "podvolumebackups",
    namespaced,
    status = "PodVolumeBackupStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "pvb",
    category = "lifeboat",
    doc = "The backup of one volume of a pod, file by file.",
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
        json_path = ".spec.node",
        description = "The node of the pod"
    ),
    printcolumn(
        name = "Uploader",
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
pub struct PodVolumeBackupSpec {
    /// Node on which the pod runs.
    pub node: String,
    /// The pod whose volume is copied.
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
    /// Tags of the snapshot in the repository, such as the backup, pod and volume it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, String>>,
    /// Settings of the mover, from `uploaderConfig`: ParallelFilesUpload. Others are ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uploader_settings: Option<BTreeMap<String, String>>,
    /// Set to true to cancel the transfer. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel: Option<bool>,
}

/// Progress and result of the transfer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodVolumeBackupStatus {
    /// Phase of the transfer. Completed, Failed and Canceled are final.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<DataMovePhase>,
    /// Path of the volume in the mover's pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// ID of the snapshot in the repository.
    #[serde(rename = "snapshotID", skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
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
    /// When the server accepted the work, by its own clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_timestamp: Option<Time>,
}

impl PodVolumeBackup {
    /// The phase; `New` if none is set.
    pub fn phase(&self) -> &DataMovePhase {
        self.status.as_ref().and_then(|status| status.phase.as_ref()).unwrap_or(&DataMovePhase::New)
    }
}
