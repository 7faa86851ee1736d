//! `VolumePluginRestore`: progress of one volume that a plugin creates from a snapshot.
//!
//! Created by the server before it calls a plugin, or by the plugin itself, in the server's namespace; never
//! stored with a backup.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::volume_plugin::{VolumeOperationProgress, has_ended};
use crate::common::Time;

/// The snapshot, its backup and the plugin.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "velero.io",
    version = "v1",
    kind = "VolumePluginRestore",
    plural = "volumepluginrestores",
    namespaced,
    status = "VolumePluginRestoreStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "vpr",
    category = "lifeboat",
    doc = "The restore of one volume by a plugin, and its progress.",
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.phase",
        description = "Phase of the restore"
    ),
    printcolumn(
        name = "Backup",
        type_ = "string",
        json_path = ".spec.backup",
        description = "The backup it restores from"
    ),
    printcolumn(
        name = "Snapshot",
        type_ = "string",
        json_path = ".spec.snapshotID",
        description = "ID of the snapshot"
    ),
    printcolumn(
        name = "Bytes Done",
        type_ = "integer",
        json_path = ".status.progress['bytesDone','BytesDone']",
        format = "int64",
        description = "Bytes copied so far"
    ),
    printcolumn(
        name = "Total Bytes",
        type_ = "integer",
        json_path = ".status.progress['totalBytes','TotalBytes']",
        format = "int64",
        description = "Bytes to copy"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since this object was created"
    ),
    printcolumn(
        name = "Plugin",
        type_ = "string",
        json_path = ".spec.plugin",
        priority = 1,
        description = "The plugin"
    ),
    printcolumn(
        name = "Volume",
        type_ = "string",
        json_path = ".status.volumeID",
        priority = 1,
        description = "The PersistentVolume"
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
pub struct VolumePluginRestoreSpec {
    /// ID of the snapshot, as the plugin names it and `backup describe` shows it.
    #[serde(rename = "snapshotID", skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    /// Name of the backup the snapshot belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup: Option<String>,
    /// Name of the plugin that restores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// Information of the plugin for users about this restore, as the plugin's own keys and values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin_specific: Option<BTreeMap<String, String>>,
}

/// Progress and result of the restore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumePluginRestoreStatus {
    /// Phase of the restore: any string that the plugin writes. The server writes InProgress, Completed and
    /// Failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Name of the PersistentVolume that is restored; in an object of a plugin, the ID that the plugin wrote.
    #[serde(rename = "volumeID", skip_serializing_if = "Option::is_none")]
    pub volume_id: Option<String>,
    /// Why it failed, or what the plugin waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the plugin started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_timestamp: Option<Time>,
    /// When the plugin ended, successfully or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_timestamp: Option<Time>,
    /// How much of the snapshot has been copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<VolumeOperationProgress>,
}

impl VolumePluginRestore {
    /// The phase, if one is set.
    pub fn phase(&self) -> Option<&str> {
        self.status.as_ref()?.phase.as_deref()
    }

    /// Whether the plugin has ended, successfully or not.
    pub fn has_ended(&self) -> bool {
        let completed = |status: &VolumePluginRestoreStatus| status.completion_timestamp.is_some();
        has_ended(self.phase(), self.status.as_ref().is_some_and(completed))
    }
}
