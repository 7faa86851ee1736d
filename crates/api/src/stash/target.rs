//! [`BackupTarget`] and [`RestoreTarget`]: the target of a backup and of a restore.

use k8s_openapi::api::core::v1::VolumeMount;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::cel;
use super::claim_template::ClaimTemplate;
use super::limits;
use super::reference::TargetRef;
use super::rule::{self, RestoreRule};

/// The target of a backup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupTarget {
    /// Host name of the snapshots in the repository. A StatefulSet's pods get "-<ordinal>" after
    /// it, a DaemonSet's "-<node>". Default: "host-0", "host-<ordinal>" or the node's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::NAME))]
    pub alias: Option<String>,
    /// The object that is backed up.
    #[serde(rename = "ref")]
    pub reference: TargetRef,
    /// Directories or files to back up, as mounted by `volumeMounts`. Default: everything that is mounted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Mounts of the target's volumes that hold the paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_mounts: Vec<VolumeMount>,
    /// Driver VolumeSnapshotter: how many replicas of a StatefulSet are backed up, from the first. Default: as
    /// many as it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub replicas: Option<i32>,
    /// VolumeSnapshotClass of the snapshots. Default with driver VolumeSnapshotter: the default class of the
    /// claim's driver. Driver Restic reads snapshots only if this is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_class_name: Option<String>,
    /// Patterns of files to exclude.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// Further arguments for the backup, in restic's syntax.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
}

/// Target of the restore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = cel::required(
    "has(self.ref) || (has(self.volumeClaimTemplates) && self.volumeClaimTemplates.size() > 0)",
    ".ref", "target needs ref, or volumeClaimTemplates to restore into",
))]
#[serde(rename_all = "camelCase")]
pub struct RestoreTarget {
    /// The alias of the backup; determines the source hosts of rules that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::NAME))]
    pub alias: Option<String>,
    /// The object to restore into. Not needed with `volumeClaimTemplates`.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<TargetRef>,
    /// Mounts of the target's volumes to restore into, at the same paths as for the backup.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_mounts: Vec<VolumeMount>,
    /// How many times to restore into `volumeClaimTemplates`, once for each ordinal. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub replicas: Option<i32>,
    /// Claims to create and restore into, such as those of a StatefulSet that is created afterwards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::LIST))]
    pub volume_claim_templates: Vec<ClaimTemplate>,
    /// Which snapshots each host gets. Default: each host the newest of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::RULES))]
    #[x_kube(validation = rule::one_rule_for_all_others())]
    #[x_kube(validation = rule::no_host_twice())]
    pub rules: Vec<RestoreRule>,
    /// Further arguments for the restore, in restic's syntax.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
}
