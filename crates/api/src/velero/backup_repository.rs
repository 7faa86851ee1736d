//! `BackupRepository`: the repository that holds the volume data of one namespace in one storage location.
//!
//! Created when the first volume of a namespace is backed up. The repository controller reports its state and
//! runs its maintenance.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::data_movement::UploaderType;
use crate::common::{GoDuration, Time, string_enum};

/// Where the repository is, and how often maintenance runs.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "velero.io",
    version = "v1",
    kind = "BackupRepository",
    plural = "backuprepositories",
    namespaced,
    status = "BackupRepositoryStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "brepo",
    category = "lifeboat",
    doc = "The repository with the volume data of one namespace in one storage location.",
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.phase",
        description = "Whether the repository can be used"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since this object was created"
    ),
    printcolumn(
        name = "Repository Type",
        type_ = "string",
        json_path = ".spec.repositoryType",
        description = "The format of the repository"
    ),
    printcolumn(
        name = "Namespace",
        type_ = "string",
        json_path = ".spec.volumeNamespace",
        priority = 1,
        description = "Namespace of the volumes"
    ),
    printcolumn(
        name = "Storage Location",
        type_ = "string",
        json_path = ".spec.backupStorageLocation",
        priority = 1,
        description = "Where the repository is stored"
    ),
    printcolumn(
        name = "Last Maintenance",
        type_ = "date",
        json_path = ".status.lastMaintenanceTime",
        description = "Time since maintenance last succeeded"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.message",
        priority = 1,
        description = "Why it cannot be used"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct BackupRepositorySpec {
    /// Namespace whose volumes the repository holds.
    pub volume_namespace: String,
    /// Name of the BackupStorageLocation that holds the repository.
    pub backup_storage_location: String,
    /// Format of the repository: `kopia` or `restic`. Empty in old objects, which means restic. Lifeboat uses
    /// restic only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository_type: Option<UploaderType>,
    /// Address of the repository in restic's syntax. Only for the format `restic`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restic_identifier: Option<String>,
    /// How often maintenance runs, as a Go duration such as `168h`. Maintenance frees the space of deleted
    /// backups.
    pub maintenance_frequency: GoDuration,
    /// Settings of the repository, such as the size of its cache. Accepted for compatibility; Lifeboat ignores
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository_config: Option<BTreeMap<String, String>>,
}

string_enum! {
    /// Whether a repository can be used.
    pub enum BackupRepositoryPhase {
        /// Created; the server has not processed it yet.
        New = "New",
        /// The repository opened at the last check.
        Ready = "Ready",
        /// The repository cannot be used; `message` has the reason.
        NotReady = "NotReady",
    }
}

/// State and maintenance history of a repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupRepositoryStatus {
    /// Whether the repository can be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<BackupRepositoryPhase>,
    /// Why the repository cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When maintenance last succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_maintenance_time: Option<Time>,
    /// The latest maintenance runs, oldest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recent_maintenance: Option<Vec<BackupRepositoryMaintenanceStatus>>,
}

string_enum! {
    /// How a maintenance run ended.
    pub enum MaintenanceResult {
        /// The repository was pruned and checked without an error.
        Succeeded = "Succeeded",
        /// The run failed; `message` has the reason.
        Failed = "Failed",
    }
}

/// One maintenance run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupRepositoryMaintenanceStatus {
    /// Result of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<MaintenanceResult>,
    /// When the run started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_timestamp: Option<Time>,
    /// When the run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub complete_timestamp: Option<Time>,
    /// Why the run failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl BackupRepository {
    /// The phase; `New` if none is set.
    pub fn phase(&self) -> &BackupRepositoryPhase {
        let phase = self.status.as_ref().and_then(|status| status.phase.as_ref());
        phase.unwrap_or(&BackupRepositoryPhase::New)
    }
}
