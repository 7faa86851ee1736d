//! Kind Restic: volumes, databases or a cluster's objects, backed up now or on a schedule by an agent.

use kube::core::Rule;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cel;
use super::database::{ConnectionUrl, DatabaseAccessor};
use super::invoker::InvokerPhase;
use super::limits;
use super::reference::ObjectRef;
use super::retention::RetentionPolicy;
use crate::common::{Condition, GoDuration, LabelSelector, Time, string_enum};

/// What to back up, how and when, repository and retention.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "stash.appscode.com",
    version = "v1alpha1",
    kind = "Restic",
    plural = "restics",
    namespaced,
    status = "ResticStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Volumes, databases or a cluster's objects that are backed up now or on a schedule.",
    shortname = "rst",
    category = "lifeboat",
    category = "stash",
    printcolumn(name = "Target", type_ = "string", json_path = ".spec.targetType"),
    printcolumn(name = "Schedule", type_ = "string", json_path = ".spec.schedule"),
    printcolumn(name = "Repository", type_ = "string", json_path = ".spec.repository.name"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Last-Backup", type_ = "date", json_path = ".status.lastBackupTime"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(validation = selects("Volume", "volumeSelector"))]
#[x_kube(validation = selects("Database", "databaseSelector"))]
#[x_kube(validation = selects("Cluster", "clusterResources"))]
#[x_kube(validation = cel::required(
    "self.backupType != 'Scheduled' || has(self.schedule)",
    ".schedule", "schedule is required with backupType: Scheduled",
))]
#[x_kube(validation = cel::forbidden(
    "self.backupType != 'Instant' || !has(self.schedule)",
    ".schedule", "schedule is for backupType: Scheduled only",
))]
#[x_kube(validation = volume_policies_exist())]
#[x_kube(validation = policy_exists("databaseSelector"))]
#[x_kube(validation = policy_exists("clusterResources"))]
#[serde(rename_all = "camelCase")]
pub struct ResticSpec {
    /// What is backed up: Volume, Database or Cluster. The selector of that type must be set, and no other.
    pub target_type: ResticTargetType,
    /// Scheduled, or Instant for a single backup at once.
    pub backup_type: BackupType,
    /// When to back up: five cron fields, "@daily" and the like, or "@every 1m".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::TIME))]
    #[x_kube(validation = cel::schedule())]
    pub schedule: Option<String>,
    /// Online, while the workload runs, or Offline, while it is stopped. Default: Online.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_mode: Option<BackupMode>,
    /// Name of the BackupAgent whose image and command run the backup.
    #[schemars(length(min = 1, max = limits::NAME))]
    pub backup_agent: String,
    /// Directory in the backend below which the backups are stored, such as "databases" or "cluster".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Repository that stores the data.
    pub repository: ObjectRef,
    /// Workloads and their volumes to back up, for targetType Volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_selector: Option<VolumeSelector>,
    /// Databases to back up, for targetType Database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database_selector: Option<DatabaseSelector>,
    /// Objects of the cluster to back up, for targetType Cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_resources: Option<ClusterResources>,
    /// The policies that selectors refer to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(validation = Rule::new("self.all(p, self.exists_one(o, o.name == p.name))")
        .message("retentionPolicies: name must be unique"))]
    pub retention_policies: Vec<RetentionPolicy>,
}

/// Rule: the selector is required for its target type, and not allowed for others.
fn selects(target_type: &str, field: &str) -> Rule {
    cel::required(
        &format!("(self.targetType == '{target_type}') == has(self.{field})"),
        &format!(".{field}"),
        &format!("{field} must be set with targetType: {target_type}, and only then"),
    )
}

/// Rule: the policy of a selector is one of the policies.
fn policy_exists(selector: &str) -> Rule {
    let given = format!("self.{selector}.retentionPolicyName");
    Rule::new(format!(
        "!has(self.{selector}) || !has({given}) || \
         (has(self.retentionPolicies) && self.retentionPolicies.exists(p, p.name == {given}))"
    ))
    .field_path(format!(".{selector}.retentionPolicyName"))
    .message(&*format!("{selector}.retentionPolicyName must be the name of one of retentionPolicies"))
}

/// Rule: the policies of all directories are among the policies.
fn volume_policies_exist() -> Rule {
    Rule::new(
        "!has(self.volumeSelector) || self.volumeSelector.targetVolumes.all(v, !has(v.directories) || \
         v.directories.all(d, !has(d.retentionPolicyName) || (has(self.retentionPolicies) && \
         self.retentionPolicies.exists(p, p.name == d.retentionPolicyName))))",
    )
    .field_path(".volumeSelector.targetVolumes")
    .message("volumeSelector: each retentionPolicyName must be the name of one of retentionPolicies")
}

string_enum! {
    /// What a Restic backs up.
    #[derive(Default)]
    pub enum ResticTargetType {
        /// Files of workloads' volumes.
        #[default]
        Volume = "Volume",
        /// Dumps of databases.
        Database = "Database",
        /// Objects of the cluster.
        Cluster = "Cluster",
    }
}

string_enum! {
    /// When a Restic backs up.
    #[derive(Default)]
    pub enum BackupType {
        /// On a schedule.
        #[default]
        Scheduled = "Scheduled",
        /// Once, at creation.
        Instant = "Instant",
    }
}

string_enum! {
    /// Whether workloads run while they are backed up.
    #[derive(Default)]
    pub enum BackupMode {
        /// Workloads keep running.
        #[default]
        Online = "Online",
        /// Workloads are stopped for the backup and started again.
        Offline = "Offline",
    }
}

/// Workloads, and their volumes to back up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSelector {
    /// Labels of the workloads.
    pub selector: LabelSelector,
    /// Their volumes to back up.
    #[schemars(length(min = 1, max = 32))]
    pub target_volumes: Vec<TargetVolume>,
}

/// A volume of a workload, and its directories to back up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetVolume {
    /// Name of the volume in the workload's pods.
    #[schemars(length(min = 1, max = limits::NAME))]
    pub name: String,
    /// Path at which it is mounted for the backup.
    #[schemars(length(min = 1, max = limits::PATH))]
    #[x_kube(validation = Rule::new("self.startsWith('/')").message("mountPath must be absolute"))]
    pub mount_path: String,
    /// Directories to back up. Default: the whole volume.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub directories: Vec<TargetDirectory>,
}

/// A directory to back up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetDirectory {
    /// Path of the directory, as seen under the volume's `mountPath`.
    #[schemars(length(min = 1, max = limits::PATH))]
    pub path: String,
    /// Policy for the directory's snapshots: the name of one of `retentionPolicies`. Default: all snapshots
    /// are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::NAME))]
    pub retention_policy_name: Option<String>,
}

/// Databases to back up: one AppBinding, one address, or several of both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = cel::exactly_one_of(
    &["AppRef", "connectionURL", "databaseAccessors"],
    "databaseSelector: exactly one of AppRef, connectionURL, databaseAccessors must be set",
))]
#[serde(rename_all = "camelCase")]
pub struct DatabaseSelector {
    /// AppBinding with the address of the database.
    #[serde(default, rename = "AppRef", skip_serializing_if = "Option::is_none")]
    pub app_ref: Option<ObjectRef>,
    /// Address of the database.
    #[serde(default, rename = "connectionURL", skip_serializing_if = "Option::is_none")]
    pub connection_url: Option<ConnectionUrl>,
    /// Several databases that the same agent can back up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = limits::LIST))]
    pub database_accessors: Vec<DatabaseAccessor>,
    /// Policy for the snapshots: the name of one of `retentionPolicies`. Default: all snapshots are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::NAME))]
    pub retention_policy_name: Option<String>,
}

/// Objects of the cluster to back up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterResources {
    /// Policy for the snapshots: the name of one of `retentionPolicies`. Default: all snapshots are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::NAME))]
    pub retention_policy_name: Option<String>,
    /// Whether to remove fields that the cluster adds (status, uid, resourceVersion and the like), so that
    /// the objects can be applied to another cluster. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sanitize: bool,
    /// Whether to exclude objects that another object owns, such as a Deployment's pods. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parents_only: bool,
    /// Kinds of objects to back up. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_selector: Vec<ResourceSelector>,
}

/// Resources of one API group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSelector {
    /// API group, with or without version ("apps/v1"); "" is the core group.
    pub group: String,
    /// Plural names of the resources, such as "deployments". Default: all of the group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
}

/// State and statistics of a Restic's backups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResticStatus {
    /// Generation of the object that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready, NotReady or Invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<InvokerPhase>,
    /// Conditions: RepositoryFound, BackendSecretFound, ValidationPassed, BackupTargetFound and
    /// others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// When the last backup started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_backup_time: Option<Time>,
    /// How long it took, for all directories together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_backup_duration: Option<GoDuration>,
    /// How many backups succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub successful_backups: Option<i64>,
    /// How many backups failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_backups: Option<i64>,
}
