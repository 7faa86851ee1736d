//! Kind Snapshot: one restic snapshot of a Repository.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::Time;

/// Nothing can be set: a Snapshot shows what the repository holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "repositories.stash.appscode.com",
    version = "v1alpha1",
    kind = "Snapshot",
    namespaced,
    status = "SnapshotStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "One snapshot of a Repository. The newest 50 of each Repository are shown. Deleting a Snapshot deletes no data.",
    category = "lifeboat",
    category = "stash",
    printcolumn(name = "ID", type_ = "string", json_path = ".status.id"),
    printcolumn(name = "Repository", type_ = "string", json_path = ".status.repository"),
    printcolumn(name = "Hostname", type_ = "string", json_path = ".status.hostname"),
    printcolumn(name = "Created-At", type_ = "date", json_path = ".status.time")
)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotSpec {}

/// What the repository says about a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotStatus {
    /// Full ID of the snapshot.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// When the backup that made it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// Name of the Repository, which is in the same namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub repository: String,
    /// The host whose data it holds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    /// The paths that were backed up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Tags of the snapshot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// ID of the tree of its files.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tree: String,
    /// Name of the user that made it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub username: String,
    /// ID of that user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<i64>,
    /// ID of that user's group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<i64>,
}
