//! `DownloadRequest`: requests a link to one file of a backup or restore in storage.
//!
//! Created by the commands that show logs and details (ours and stock ones), read by the download controller.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{Time, string_enum};

/// The requested file.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "velero.io",
    version = "v1",
    kind = "DownloadRequest",
    plural = "downloadrequests",
    namespaced,
    status = "DownloadRequestStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "dlr",
    category = "lifeboat",
    doc = "Requests a link to one file of a backup or restore, such as its log.",
    printcolumn(
        name = "Kind",
        type_ = "string",
        json_path = ".spec.target.kind",
        description = "Which file is wanted"
    ),
    printcolumn(
        name = "Name",
        type_ = "string",
        json_path = ".spec.target.name",
        description = "The backup or restore it belongs to"
    ),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.phase",
        description = "Whether the link is there"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since this object was created"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct DownloadRequestSpec {
    /// The requested file, and the backup or restore it belongs to.
    pub target: DownloadTarget,
}

/// One file of one backup or restore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DownloadTarget {
    /// Kind of the file, such as `BackupLog` or `RestoreResults`.
    pub kind: DownloadTargetKind,
    /// Name of the backup or restore.
    pub name: String,
}

string_enum! {
    /// The files that can be requested.
    #[derive(Default)]
    pub enum DownloadTargetKind {
        /// Log of a backup.
        #[default]
        BackupLog = "BackupLog",
        /// The backup itself: its objects as a compressed archive.
        BackupContents = "BackupContents",
        /// The volume snapshots that plugins took in a backup.
        BackupVolumeSnapshots = "BackupVolumeSnapshots",
        /// The operations of a backup.
        BackupItemOperations = "BackupItemOperations",
        /// The names of the objects in a backup.
        BackupResourceList = "BackupResourceList",
        /// Warnings and errors of a backup.
        BackupResults = "BackupResults",
        /// Log of a restore.
        RestoreLog = "RestoreLog",
        /// Warnings and errors of a restore.
        RestoreResults = "RestoreResults",
        /// The names of the objects in a restore.
        RestoreResourceList = "RestoreResourceList",
        /// The operations of a restore.
        RestoreItemOperations = "RestoreItemOperations",
        /// The CSI volume snapshots of a backup.
        CsiBackupVolumeSnapshots = "CSIBackupVolumeSnapshots",
        /// The contents of the CSI volume snapshots of a backup.
        CsiBackupVolumeSnapshotContents = "CSIBackupVolumeSnapshotContents",
        /// How each volume of a backup was backed up.
        BackupVolumeInfos = "BackupVolumeInfos",
        /// How each volume of a restore was restored.
        RestoreVolumeInfo = "RestoreVolumeInfo",
    }
}

string_enum! {
    /// Phases of a request.
    pub enum DownloadRequestPhase {
        /// Created; the server has not processed it yet.
        New = "New",
        /// The link is in `downloadURL`.
        Processed = "Processed",
    }
}

/// The link to the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DownloadRequestStatus {
    /// Whether the link is available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<DownloadRequestPhase>,
    /// Link to the file. It works without further credentials, so treat it as a secret.
    #[serde(rename = "downloadURL", skip_serializing_if = "Option::is_none")]
    pub download_url: Option<String>,
    /// When the link expires and this object is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiration: Option<Time>,
}

impl DownloadRequest {
    /// The phase; `New` if none is set.
    pub fn phase(&self) -> &DownloadRequestPhase {
        let phase = self.status.as_ref().and_then(|status| status.phase.as_ref());
        phase.unwrap_or(&DownloadRequestPhase::New)
    }
}
