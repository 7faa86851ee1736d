//! The earlier form of a Restic, as Stash shipped it until version 0.8: workloads by label, paths in them, and a backend of its
//! own.

use k8s_openapi::api::core::v1::{LocalObjectReference, ResourceRequirements, VolumeMount};
use kube::KubeSchema;
use kube::core::Rule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{LabelSelector, string_enum};
use crate::stash::backend::Backend;
use crate::stash::limits;

/// The fields of the earlier form that no other form has.
pub(super) const FIELDS: [&str; 7] =
    ["selector", "fileGroups", "backend", "volumeMounts", "type", "resources", "imagePullSecrets"];

/// The fields of a Restic of the earlier form, beside `schedule`, `retentionPolicies` and `paused`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct EarlierRestic {
    /// Earlier form: labels of the workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Earlier form: the paths to back up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub file_groups: Vec<FileGroup>,
    /// Earlier form: where the data is stored, below a directory for each workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<Backend>,
    /// Earlier form: mounts of the workload's volumes that hold the paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_mounts: Vec<VolumeMount>,
    /// Earlier form: online, while the workload runs, or offline, while it is stopped. Default: online.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<EarlierBackupMode>,
    /// Earlier form: memory and CPU of the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Earlier form: Secrets with which the container's image is pulled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<LocalObjectReference>,
}

string_enum! {
    /// Whether workloads run while they are backed up, in the spelling of the earlier form.
    pub enum EarlierBackupMode {
        /// Workloads keep running.
        Online = "online",
        /// Workloads are stopped for the backup and started again.
        Offline = "offline",
    }
}

/// A path to back up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileGroup {
    /// The path.
    #[schemars(length(min = 1, max = limits::PATH))]
    pub path: String,
    /// Tags of its snapshots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Policy for its snapshots: the name of one of `retentionPolicies`. Default: all snapshots are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::NAME))]
    pub retention_policy_name: Option<String>,
}

/// Rule: the policies of all file groups are among the policies.
pub(super) fn policies_exist() -> Rule {
    Rule::new(
        "!has(self.fileGroups) || self.fileGroups.all(g, !has(g.retentionPolicyName) || (has(self.retentionPolicies) && \
         self.retentionPolicies.exists(p, p.name == g.retentionPolicyName)))",
    )
    .field_path(".fileGroups")
    .message("fileGroups: each retentionPolicyName must be the name of one of retentionPolicies")
}
