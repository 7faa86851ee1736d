//! `DeleteBackupRequest`: requests the deletion of a backup and all its data.
//!
//! Created by `backup delete` and the expiry controller, read by the delete controller.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::string_enum;

/// Which backup to delete.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "velero.io",
    version = "v1",
    kind = "DeleteBackupRequest",
    plural = "deletebackuprequests",
    namespaced,
    status = "DeleteBackupRequestStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "dbr",
    category = "lifeboat",
    doc = "Requests the deletion of a backup with its objects, files and snapshots.",
    printcolumn(
        name = "BackupName",
        type_ = "string",
        json_path = ".spec.backupName",
        description = "The backup to delete"
    ),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.phase",
        description = "How far the deletion has come"
    ),
    printcolumn(
        name = "Errors",
        type_ = "string",
        json_path = ".status.errors",
        description = "Why it failed"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since this object was created"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct DeleteBackupRequestSpec {
    /// Name of the backup to delete.
    pub backup_name: String,
}

string_enum! {
    /// Phases of a deletion.
    pub enum DeleteBackupRequestPhase {
        /// Created; the server has not processed it yet.
        New = "New",
        /// The backup is being deleted.
        InProgress = "InProgress",
        /// Ended. If there are `errors`, the backup still exists.
        Processed = "Processed",
    }
}

/// Progress and errors of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteBackupRequestStatus {
    /// Phase of the deletion. Processed is final, with or without errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<DeleteBackupRequestPhase>,
    /// What could not be deleted, one entry each. If there are any, the backup is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<Vec<String>>,
}

impl DeleteBackupRequest {
    /// The phase; `New` if none is set.
    pub fn phase(&self) -> &DeleteBackupRequestPhase {
        let phase = self.status.as_ref().and_then(|status| status.phase.as_ref());
        phase.unwrap_or(&DeleteBackupRequestPhase::New)
    }
}
