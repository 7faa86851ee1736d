//! Kind Restic: volumes, databases or a cluster's objects, backed up now or on a schedule by an agent. An object has either the
//! fields of this form or those of the earlier one ([`EarlierRestic`]).

mod earlier;
mod selection;

pub use earlier::{EarlierBackupMode, EarlierRestic, FileGroup};
pub(super) use selection::few_resources;
pub use selection::{
    ClusterResources, DatabaseSelector, ResourceSelector, TargetDirectory, TargetVolume, VolumeSelector,
};

use kube::core::Rule;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cel;
use super::hooks::BackupHooks;
use super::invoker::InvokerPhase;
use super::limits;
use super::reference::ObjectRef;
use super::retention::RetentionPolicy;
use super::runtime::RuntimeSettings;
use crate::common::{Condition, GoDuration, Time, string_enum};

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
#[x_kube(validation = cel::one_form(&FIELDS, &earlier::FIELDS))]
#[x_kube(validation = cel::required_in_form(&earlier::FIELDS, "targetType"))]
#[x_kube(validation = cel::required_in_form(&earlier::FIELDS, "backupType"))]
#[x_kube(validation = cel::required_in_form(&earlier::FIELDS, "backupAgent"))]
#[x_kube(validation = cel::required_in_form(&earlier::FIELDS, "repository"))]
#[x_kube(validation = cel::required_in_form(&FIELDS, "selector"))]
#[x_kube(validation = cel::required_in_form(&FIELDS, "fileGroups"))]
#[x_kube(validation = cel::required_in_form(&FIELDS, "backend"))]
#[x_kube(validation = earlier::policies_exist())]
#[x_kube(validation = selects("Volume", "volumeSelector"))]
#[x_kube(validation = selects("Database", "databaseSelector"))]
#[x_kube(validation = selects("Cluster", "clusterResources"))]
#[x_kube(validation = cel::required(
    "has(self.schedule) || (has(self.backupType) && self.backupType != 'Scheduled')",
    ".schedule", "schedule is required, except with backupType: Instant",
))]
#[x_kube(validation = cel::forbidden(
    "!has(self.backupType) || self.backupType != 'Instant' || !has(self.schedule)",
    ".schedule", "schedule is for backupType: Scheduled only",
))]
#[x_kube(validation = volume_policies_exist())]
#[x_kube(validation = policy_exists("databaseSelector"))]
#[x_kube(validation = policy_exists("clusterResources"))]
#[serde(rename_all = "camelCase")]
pub struct ResticSpec {
    /// What is backed up: Volume, Database or Cluster. The selector of that type must be set, and no other. Required, except in
    /// the earlier form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_type: Option<ResticTargetType>,
    /// Scheduled, or Instant for a single backup at once. Required, except in the earlier form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_type: Option<BackupType>,
    /// When to back up: five cron fields, "@daily" and the like, or "@every 1m".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::TIME))]
    #[x_kube(validation = cel::schedule())]
    pub schedule: Option<String>,
    /// Online, while the workload runs, or Offline, while it is stopped. Default: Online.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_mode: Option<BackupMode>,
    /// Name of the BackupAgent whose image and command run the backup. Required, except in the earlier form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = limits::NAME))]
    pub backup_agent: Option<String>,
    /// Directory in the backend below which the backups are stored. Default: "volumes", "databases" or "cluster".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::PREFIX))]
    pub prefix: Option<String>,
    /// Repository that stores the data. Required, except in the earlier form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<ObjectRef>,
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
    /// Whether the schedule is paused, or a backup of type Instant does not start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// How long a backup may take, such as "2h"; after that it is stopped and Failed. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::TIME))]
    #[x_kube(validation = cel::duration())]
    pub time_out: Option<GoDuration>,
    /// Hooks before and after the backup of each target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<BackupHooks>,
    /// Settings of the pods that do the work: environment variables, annotations, resources, placement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_settings: Option<RuntimeSettings>,
    /// Further arguments: of the backup in restic's syntax or, for targetType Database, of the agent's dump program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::LIST))]
    pub args: Vec<String>,
    /// The fields of the earlier form.
    #[serde(flatten)]
    pub earlier: EarlierRestic,
}

/// The fields of a Restic that the earlier form does not have.
const FIELDS: [&str; 13] = [
    "targetType",
    "backupType",
    "backupMode",
    "backupAgent",
    "prefix",
    "repository",
    "volumeSelector",
    "databaseSelector",
    "clusterResources",
    "timeOut",
    "hooks",
    "runtimeSettings",
    "args",
];

/// Rule: the selector is required for its target type, and not allowed for others.
fn selects(target_type: &str, field: &str) -> Rule {
    cel::required(
        &format!("!has(self.targetType) || (self.targetType == '{target_type}') == has(self.{field})"),
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
    /// When the last BackupSession of the schedule was due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,
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
