//! Kind BackupBlueprint: template of the backup of workloads that request it by annotation.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::cel;
use super::claim_template::ClaimTemplate;
use super::hooks::BackupHooks;
use super::invoker::{RetryConfig, one};
use super::limits;
use super::reference::TaskRef;
use super::repository::RepositorySpec;
use super::retention::RetentionPolicy;
use super::runtime::{RuntimeSettings, TempDirSettings};
use crate::common::GoDuration;

/// The Repository and BackupConfiguration to create for each target. "${TARGET_NAMESPACE}", "${TARGET_KIND}",
/// "${TARGET_NAME}" and similar variables are replaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "stash.appscode.com",
    version = "v1beta1",
    kind = "BackupBlueprint",
    derive = "Default",
    derive = "PartialEq",
    doc = "A template of Repository and BackupConfiguration for workloads that name it in an annotation.",
    shortname = "bb",
    category = "lifeboat",
    category = "stash",
    printcolumn(name = "Task", type_ = "string", json_path = ".spec.task.name"),
    printcolumn(name = "Schedule", type_ = "string", json_path = ".spec.schedule"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct BackupBlueprintSpec {
    /// The Repository to create.
    #[serde(flatten)]
    pub repository: RepositorySpec,
    /// Namespace of the BackupConfiguration. Default: the target's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_namespace: Option<String>,
    /// Namespace of the Repository. Default: the target's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo_namespace: Option<String>,
    /// When to back up: five cron fields, "@daily" and the like, or "@every 1h". An annotation of the target
    /// takes precedence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::TIME))]
    #[x_kube(validation = cel::schedule_template())]
    pub schedule: Option<String>,
    /// Task that runs the backup, such as "mysql-backup-${TARGET_APP_VERSION}".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskRef>,
    /// Which snapshots to keep.
    pub retention_policy: RetentionPolicy,
    /// Settings of the pods that do the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_settings: Option<RuntimeSettings>,
    /// Directory for temporary files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temp_dir: Option<TempDirSettings>,
    /// Claim to create for intermediate data, if the temporary directory would be too small.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interim_volume_template: Option<ClaimTemplate>,
    /// Hooks before and after a backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<BackupHooks>,
    /// How many finished BackupSessions to keep.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    pub backup_history_limit: i32,
    /// How long a backup may take, such as "2h"; after that it is stopped and Failed. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::TIME))]
    #[x_kube(validation = cel::duration())]
    pub time_out: Option<GoDuration>,
    /// Whether and when a failed backup is retried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_config: Option<RetryConfig>,
}
