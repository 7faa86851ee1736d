//! `VolumePluginBackup`: progress of one volume snapshot by a plugin.
//!
//! Created by the server before it calls a plugin, or by the plugin itself, in the server's namespace; stored
//! with the backup and synced into other clusters.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::volume_plugin::{VolumeOperationProgress, has_ended};
use crate::common::Time;

/// The volume, its backup and the plugin.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "velero.io",
    version = "v1",
    kind = "VolumePluginBackup",
    plural = "volumepluginbackups",
    namespaced,
    status = "VolumePluginBackupStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "vpb",
    category = "lifeboat",
    doc = "The snapshot of one volume by a plugin, and its progress.",
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.phase",
        description = "Phase of the snapshot"
    ),
    printcolumn(
        name = "Backup",
        type_ = "string",
        json_path = ".spec.backup",
        description = "The backup it belongs to"
    ),
    printcolumn(
        name = "Volume",
        type_ = "string",
        json_path = ".spec.volume",
        description = "The PersistentVolume"
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
        name = "Snapshot",
        type_ = "string",
        json_path = ".status.snapshotID",
        priority = 1,
        description = "ID of the snapshot"
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
pub struct VolumePluginBackupSpec {
    /// Name of the PersistentVolume that is snapshotted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// Name of the backup it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup: Option<String>,
    /// Name of the plugin that takes the snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// Information of the plugin for users about this snapshot, as the plugin's own keys and values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin_specific: Option<BTreeMap<String, String>>,
}

/// Progress and result of the snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumePluginBackupStatus {
    /// Phase of the snapshot: any string that the plugin writes. The server writes InProgress, Completed and
    /// Failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// ID of the snapshot, as the plugin names it and `backup describe` shows it.
    #[serde(rename = "snapshotID", skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    /// Why it failed, or what the plugin waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the plugin started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_timestamp: Option<Time>,
    /// When the plugin ended, successfully or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_timestamp: Option<Time>,
    /// How much of the volume has been copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<VolumeOperationProgress>,
}

impl VolumePluginBackup {
    /// The phase, if one is set.
    pub fn phase(&self) -> Option<&str> {
        self.status.as_ref()?.phase.as_deref()
    }

    /// Whether the plugin has ended, successfully or not.
    pub fn has_ended(&self) -> bool {
        let completed = |status: &VolumePluginBackupStatus| status.completion_timestamp.is_some();
        has_ended(self.phase(), self.status.as_ref().is_some_and(completed))
    }
}
