//! Kind Recovery: data of one directory of a Repository, brought back by an agent. It needs the Repository
//! only, not the Restic that made the backup.

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
use super::volume_source::VolumeSource;
use crate::common::{Condition, GoDuration, string_enum};

/// What to bring back, wherefrom and whereto.
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
    doc = "Volumes or a database that are brought back from a Repository.",
    shortname = "rec",
    category = "lifeboat",
    category = "stash",
    printcolumn(name = "Target", type_ = "string", json_path = ".spec.targetType"),
    printcolumn(name = "Repository", type_ = "string", json_path = ".spec.repository.name"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(validation = restores("Volume", "volumeRestorer"))]
#[x_kube(validation = restores("Database", "databaseRestorer"))]
#[serde(rename_all = "camelCase")]
pub struct RecoverySpec {
    /// What is brought back: Volume or Database. The restorer of that name must be set, not the other.
    pub target_type: RecoveryTargetType,
    /// Name of the BackupAgent whose image and command bring it back.
    #[schemars(length(min = 1, max = limits::NAME))]
    pub recovery_agent: String,
    /// Repository that has the data.
    pub repository: ObjectRef,
    /// Files to bring back, for targetType Volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_restorer: Option<VolumeRestorer>,
    /// Database to bring back, for targetType Database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database_restorer: Option<DatabaseRestorer>,
}

/// The restorer belongs to its target type: necessary there, out of place elsewhere.
fn restores(target_type: &str, field: &str) -> Rule {
    cel::required(
        &format!("(self.targetType == '{target_type}') == has(self.{field})"),
        &format!(".{field}"),
        &format!("{field} must be set with targetType: {target_type}, and only then"),
    )
}

string_enum! {
    /// What a Recovery brings back.
    #[derive(Default)]
    pub enum RecoveryTargetType {
        /// Files.
        #[default]
        Volume = "Volume",
        /// A database.
        Database = "Database",
    }
}

/// Files to bring back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeRestorer {
    /// Directory in the backend, as the Repository's status shows it.
    #[schemars(length(min = 1))]
    pub repo_dir: String,
    /// Snapshot to bring back, by name or id. Default: the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Paths in the snapshot to bring back. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Volumes that get the files, mounted where the paths begin.
    #[schemars(length(min = 1, max = 32))]
    pub recover_to: Vec<RecoveredVolume>,
}

/// A volume that gets files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = exactly_one_volume("recoverTo"))]
#[serde(rename_all = "camelCase")]
pub struct RecoveredVolume {
    /// Where it is mounted for the recovery.
    #[schemars(length(min = 1, max = limits::PATH))]
    #[x_kube(validation = Rule::new("self.startsWith('/')").message("mountPath must be absolute"))]
    pub mount_path: String,
    /// The volume, as in a pod.
    #[serde(flatten)]
    pub volume: VolumeSource,
}

/// A database to bring back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseRestorer {
    /// Directory in the backend, as the Repository's status shows it.
    #[schemars(length(min = 1))]
    pub repo_dir: String,
    /// Snapshot to bring back, by name or id. Default: the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Database that gets the data.
    pub recover_to: DatabaseAccessor,
}

/// What has come of a Recovery so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecoveryStatus {
    /// Generation of the object that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How far the recovery has come: Pending, Running, Succeeded, Failed, Unknown or Invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<RestorePhase>,
    /// What came of each path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stats: Vec<RecoveryStats>,
    /// What was found and done: RepositoryFound, BackendSecretFound, RestoreJobCreated and others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// What came of one path of a Recovery.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecoveryStats {
    /// The path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// How far it has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<RestorePhase>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<GoDuration>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
