//! Kind Recovery: recovers data of one directory of a Repository with an agent. It needs the Repository
//! only, not the Restic that created the backup. An object has either the fields of this form or those of the earlier one
//! ([`EarlierRecovery`]).

mod cluster;
mod earlier;

pub use cluster::{ClusterRestorer, ExistingObjects};
pub use earlier::EarlierRecovery;

use kube::core::Rule;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::backend::exactly_one_volume;
use super::cel;
use super::database::DatabaseAccessor;
use super::limits;
use super::reference::ObjectRef;
use super::restore_session::RestorePhase;
use super::runtime::RuntimeSettings;
use super::volume_source::VolumeSource;
use crate::common::{Condition, GoDuration, string_enum};

/// What to recover, from which repository, and the target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "stash.appscode.com",
    version = "v1alpha1",
    kind = "Recovery",
    plural = "recoveries",
    namespaced,
    status = "RecoveryStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A recovery of volumes, of a database or of a cluster's objects from a Repository.",
    shortname = "rec",
    category = "lifeboat",
    category = "stash",
    printcolumn(name = "Target", type_ = "string", json_path = ".spec.targetType"),
    printcolumn(name = "Repository", type_ = "string", json_path = ".spec.repository.name"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(validation = cel::immutable())]
#[x_kube(validation = cel::one_form(&FIELDS, &earlier::FIELDS))]
#[x_kube(validation = cel::required_in_form(&earlier::FIELDS, "targetType"))]
#[x_kube(validation = cel::required_in_form(&earlier::FIELDS, "recoveryAgent"))]
#[x_kube(validation = cel::required_in_form(&FIELDS, "paths"))]
#[x_kube(validation = cel::required_in_form(&FIELDS, "recoveredVolumes"))]
#[x_kube(validation = restores("Volume", "volumeRestorer"))]
#[x_kube(validation = restores("Database", "databaseRestorer"))]
#[x_kube(validation = restores("Cluster", "clusterRestorer"))]
#[serde(rename_all = "camelCase")]
pub struct RecoverySpec {
    /// What is recovered: Volume, Database or Cluster. The restorer of that type must be set, and no other. Required, except in
    /// the earlier form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_type: Option<RecoveryTargetType>,
    /// Name of the BackupAgent whose image and command run the recovery. Required, except in the earlier form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = limits::NAME))]
    pub recovery_agent: Option<String>,
    /// Repository that holds the data. In the earlier form its name is that of the workload's repository, such as
    /// "deployment.stash-demo".
    pub repository: ObjectRef,
    /// Files to recover, for targetType Volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_restorer: Option<VolumeRestorer>,
    /// Database to recover, for targetType Database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database_restorer: Option<DatabaseRestorer>,
    /// Objects to recover, for targetType Cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_restorer: Option<ClusterRestorer>,
    /// Settings of the pods that do the work: environment variables, annotations, resources, placement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_settings: Option<RuntimeSettings>,
    /// The fields of the earlier form.
    #[serde(flatten)]
    pub earlier: EarlierRecovery,
}

/// The fields of a Recovery that the earlier form does not have.
const FIELDS: [&str; 6] = [
    "targetType",
    "recoveryAgent",
    "volumeRestorer",
    "databaseRestorer",
    "clusterRestorer",
    "runtimeSettings",
];

/// Rule: the restorer is required for its target type, and not allowed for others.
fn restores(target_type: &str, field: &str) -> Rule {
    cel::required(
        &format!("!has(self.targetType) || (self.targetType == '{target_type}') == has(self.{field})"),
        &format!(".{field}"),
        &format!("{field} must be set with targetType: {target_type}, and only then"),
    )
}

string_enum! {
    /// What a Recovery recovers.
    #[derive(Default)]
    pub enum RecoveryTargetType {
        /// Files.
        #[default]
        Volume = "Volume",
        /// A database.
        Database = "Database",
        /// Objects of a cluster.
        Cluster = "Cluster",
    }
}

/// Files to recover.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeRestorer {
    /// Directory in the backend, as the Repository's status shows it.
    #[schemars(length(min = 1, max = limits::PATH))]
    pub repo_dir: String,
    /// Snapshot to recover, by name or id. Default: the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Paths in the snapshot to recover. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Volumes to write to, mounted at the beginning of the paths.
    #[schemars(length(min = 1, max = 32))]
    pub recover_to: Vec<RecoveredVolume>,
}

/// A volume to write to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = exactly_one_volume("recoverTo"))]
#[serde(rename_all = "camelCase")]
pub struct RecoveredVolume {
    /// Path at which it is mounted for the recovery.
    #[schemars(length(min = 1, max = limits::PATH))]
    #[x_kube(validation = Rule::new("self.startsWith('/')").message("mountPath must be absolute"))]
    pub mount_path: String,
    /// Directory of the volume that is mounted. Default: the whole volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::PATH))]
    pub sub_path: Option<String>,
    /// The volume, as in a pod.
    #[serde(flatten)]
    pub volume: VolumeSource,
}

/// A database to recover.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseRestorer {
    /// Directory in the backend, as the Repository's status shows it.
    #[schemars(length(min = 1, max = limits::PATH))]
    pub repo_dir: String,
    /// Snapshot to recover, by name or id. Default: the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Database to write to.
    pub recover_to: DatabaseAccessor,
}

/// Progress and result of a Recovery.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecoveryStatus {
    /// Generation of the object that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Phase of the recovery: Pending, Running, Succeeded, Failed, Unknown or Invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<RestorePhase>,
    /// Result of each path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stats: Vec<RecoveryStats>,
    /// Conditions: RepositoryFound, BackendSecretFound, RestoreJobCreated and others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Result of one path of a Recovery.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecoveryStats {
    /// The path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Phase of the recovery of this path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<RestorePhase>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<GoDuration>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
