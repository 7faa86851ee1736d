//! The selectors of a Restic: volumes of workloads, databases, objects of the cluster.

use kube::KubeSchema;
use kube::core::Rule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::LabelSelector;
use crate::stash::database::{ConnectionUrl, DatabaseAccessor};
use crate::stash::reference::ObjectRef;
use crate::stash::{cel, limits};

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
    #[x_kube(validation = few_other_namespaces())]
    pub database_accessors: Vec<DatabaseAccessor>,
    /// Policy for the snapshots: the name of one of `retentionPolicies`. Default: all snapshots are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::NAME))]
    pub retention_policy_name: Option<String>,
}

/// Rule: no more databases of named namespaces than one admission policy can check. A rule of a schema does not know the
/// namespace of its object, so that a namespace counts whenever it is named.
fn few_other_namespaces() -> Rule {
    Rule::new(format!(
        "self.filter(a, (has(a.AppRef) && has(a.AppRef.__namespace__)) || (has(a.connectionURL) && \
         has(a.connectionURL.credentials) && has(a.connectionURL.credentials.__namespace__))).size() <= {}",
        limits::OTHER_DATABASES
    ))
    .message(&*format!(
        "databaseAccessors: at most {} may name a namespace; leave out the namespace of the Restic, or use several Restics",
        limits::OTHER_DATABASES
    ))
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
    /// Kinds of objects to back up: at most 16 resources in all groups together. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::RESOURCES))]
    #[x_kube(validation = few_resources())]
    pub resource_selector: Vec<ResourceSelector>,
}

/// Resources of one API group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSelector {
    /// API group, with or without version ("apps/v1"); "" is the core group.
    #[schemars(length(max = limits::NAME))]
    #[x_kube(validation = Rule::new("self.matches(r'^([a-z0-9]([-a-z0-9.]*[a-z0-9])?(/[a-z0-9]+)?)?$')")
        .message("must be an API group such as \"apps\" or \"apps/v1\", or \"\" for the core group"))]
    pub group: String,
    /// Plural names of the resources, such as "deployments". Default: all of the group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::RESOURCES), inner(length(max = limits::NAME)))]
    #[x_kube(validation = Rule::new("self.all(name, name.matches(r'^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$'))")
        .message("resources must be plural names such as \"deployments\", without kinds, wildcards and subresources"))]
    pub resources: Vec<String>,
}

/// Rule: no more resources than one admission policy can check. A group without `resources` counts as one.
pub(in crate::stash) fn few_resources() -> Rule {
    Rule::new(format!(
        "self.map(s, has(s.resources) && s.resources.size() > 0 ? s.resources.size() : 1).sum() <= {}",
        limits::RESOURCES
    ))
    .message(&*format!(
        "resourceSelector: at most {} resources in all groups together; use several objects",
        limits::RESOURCES
    ))
}
