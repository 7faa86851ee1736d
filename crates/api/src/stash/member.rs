//! [`BackupMember`] and [`RestoreMember`]: one target and how it is handled. A batch has many; a
//! BackupConfiguration or RestoreSession is one, with its fields inline.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::cel;
use super::claim_template::ClaimTemplate;
use super::hooks::{BackupHooks, RestoreHooks};
use super::limits;
use super::reference::TaskRef;
use super::rule::{self, RestoreRule};
use super::runtime::{RuntimeSettings, TempDirSettings};
use super::target::{BackupTarget, RestoreTarget};

/// One target and how it is backed up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupMember {
    /// Task that runs the backup, such as "mysql-backup-8.0.14".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskRef>,
    /// Target of the backup. Optional for a Task that needs none, such as a dump of the cluster's objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<BackupTarget>,
    /// Settings of the pods that do the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_settings: Option<RuntimeSettings>,
    /// Directory for temporary files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temp_dir: Option<TempDirSettings>,
    /// Claim to create for intermediate data, if the temporary directory would be too small.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interim_volume_template: Option<ClaimTemplate>,
    /// Hooks before and after the backup of this target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<BackupHooks>,
}

/// One target and how it is restored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = cel::forbidden(
    "!(has(self.rules) && self.rules.size() > 0 && has(self.target) && has(self.target.rules) \
     && self.target.rules.size() > 0)",
    ".rules", "rules are already set in target.rules; remove one of the two",
))]
#[serde(rename_all = "camelCase")]
pub struct RestoreMember {
    /// Task that runs the restore, such as "mysql-restore-8.0.14". The name of the backup's task is accepted
    /// too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskRef>,
    /// Target of the restore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<RestoreTarget>,
    /// Rules of the hosts; deprecated in favour of `target.rules`. Not both.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::RULES))]
    #[x_kube(validation = rule::one_rule_for_all_others())]
    #[x_kube(validation = rule::no_host_twice())]
    pub rules: Vec<RestoreRule>,
    /// Settings of the pods that do the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_settings: Option<RuntimeSettings>,
    /// Directory for temporary files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temp_dir: Option<TempDirSettings>,
    /// Claim to create for intermediate data, if the temporary directory would be too small.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interim_volume_template: Option<ClaimTemplate>,
    /// Hooks before and after the restore of this target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<RestoreHooks>,
}

impl RestoreMember {
    /// The rules, from `target.rules` or `rules`.
    pub fn effective_rules(&self) -> &[RestoreRule] {
        match &self.target {
            Some(target) if !target.rules.is_empty() => &target.rules,
            _ => &self.rules,
        }
    }
}
