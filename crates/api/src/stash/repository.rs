//! Kind Repository: a backend and the state of the backups in it.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::backend::Backend;
use super::cel;
use super::reference::TypedObjectRef;
use crate::common::{Condition, GoDuration, LabelSelector, Time, string_enum};

/// The backend, and the namespaces that may use it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "stash.appscode.com",
    version = "v1alpha1",
    kind = "Repository",
    plural = "repositories",
    namespaced,
    status = "RepositoryStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A backend for backups, and the state of the backups in it.",
    shortname = "repo",
    category = "lifeboat",
    category = "stash",
    printcolumn(name = "Integrity", type_ = "boolean", json_path = ".status.integrity"),
    printcolumn(name = "Size", type_ = "string", json_path = ".status.totalSize"),
    printcolumn(name = "Snapshot-Count", type_ = "integer", json_path = ".status.snapshotCount"),
    printcolumn(name = "Last-Successful-Backup", type_ = "date", json_path = ".status.lastBackupTime"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Reachable",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='RepositoryReachable')].status"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='RepositoryReachable')].message"
    )
)]
#[x_kube(validation = cel::forbidden(
    "!(has(self.wipeOut) && self.wipeOut && (has(self.backend.local) || has(self.backend.b2)))",
    ".wipeOut", "wipeOut is not possible for backends local and b2",
))]
#[serde(rename_all = "camelCase")]
pub struct RepositorySpec {
    /// Where the data is stored.
    pub backend: Backend,
    /// Whether the data is deleted together with this object. Not possible for local and b2. Default: no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wipe_out: bool,
    /// Which namespaces may use it. Default: its own only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage_policy: Option<UsagePolicy>,
}

/// Which namespaces may use a Repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsagePolicy {
    /// The namespaces whose objects may refer to it.
    #[serde(default)]
    pub allowed_namespaces: AllowedNamespaces,
}

/// A set of namespaces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = cel::required(
    "self.from != 'Selector' || has(self.selector)",
    ".selector", "selector is required with from: Selector",
))]
#[x_kube(validation = cel::forbidden(
    "self.from == 'Selector' || !has(self.selector)",
    ".selector", "selector is for from: Selector only",
))]
#[serde(rename_all = "camelCase")]
pub struct AllowedNamespaces {
    /// `All` namespaces, the `Same` namespace, or those that match the `Selector`.
    #[serde(default)]
    pub from: NamespacesFrom,
    /// Labels of the namespaces, for `from: Selector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

string_enum! {
    /// How a set of namespaces is selected.
    #[derive(Default)]
    pub enum NamespacesFrom {
        /// Every namespace.
        All = "All",
        /// Namespaces that match the selector.
        Selector = "Selector",
        /// The object's own namespace.
        #[default]
        Same = "Same",
    }
}

/// State of the backups in a Repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RepositoryStatus {
    /// Generation of the object that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When the first backup was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_backup_time: Option<Time>,
    /// When the last successful backup was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_backup_time: Option<Time>,
    /// Whether the last check of the repository found no problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integrity: Option<bool>,
    /// Size of all data in the backend, such as "1.234 GiB".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_size: Option<String>,
    /// Number of snapshots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_count: Option<i64>,
    /// Number of snapshots that the retention policy removed at its last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshots_removed_on_last_cleanup: Option<i64>,
    /// When space of removed snapshots was last freed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_prune_time: Option<Time>,
    /// When the repository was last checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_check_time: Option<Time>,
    /// The objects that use it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<TypedObjectRef>,
    /// The backups that Restic objects store in it, one entry for each directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backup_repos: Vec<BackupRepo>,
    /// Conditions: whether the backend is reachable and its Secret exists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The backups of one workload, database or cluster in a Repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupRepo {
    /// What is backed up: Volumes, Database or Cluster.
    #[serde(rename = "type")]
    pub type_: BackupRepoType,
    /// Kind of the workload; none for a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_kind: Option<String>,
    /// Name of the workload; none for a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_name: Option<String>,
    /// Name of the Restic that backs it up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restic_name: Option<String>,
    /// Namespace of that Restic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restic_namespace: Option<String>,
    /// Directory in the backend, such as "/volumes/deployment/stash-demo".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo_dir: Option<String>,
    /// Number of backups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_count: Option<i64>,
    /// When the first backup was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_backup_time: Option<Time>,
    /// How long the last backup took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_backup_duration: Option<GoDuration>,
    /// When the last backup was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_backup_time: Option<Time>,
}

string_enum! {
    /// Content of a directory of a Repository.
    #[derive(Default)]
    pub enum BackupRepoType {
        /// Files of a workload's volumes.
        #[default]
        Volumes = "Volumes",
        /// Dumps of a database.
        Database = "Database",
        /// Objects of a cluster.
        Cluster = "Cluster",
    }
}
