//! The part of a Recovery that selects objects of a cluster.

use std::collections::BTreeMap;

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::common::string_enum;
use crate::stash::limits;
use crate::stash::restic::{ResourceSelector, few_resources};

/// Objects to recover.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRestorer {
    /// Directory in the backend, as the Repository's status shows it.
    #[schemars(length(min = 1, max = limits::PATH))]
    pub repo_dir: String,
    /// Snapshot to recover, by name or id. Default: the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Kinds of objects to recover: at most 16 resources in all groups together. Default: all that the snapshot has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::RESOURCES))]
    #[x_kube(validation = few_resources())]
    pub resource_selector: Vec<ResourceSelector>,
    /// Namespaces of the objects to recover, as the snapshot has them. Default: all, and objects without a namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::LIST))]
    pub namespaces: Vec<String>,
    /// New names for namespaces: the key is the name in the snapshot, the value the one to recover into. Default: every
    /// namespace keeps its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub namespace_mapping: BTreeMap<String, String>,
    /// What to do with an object that exists in the cluster: `none` leaves it unchanged, `update` patches it to its state in the
    /// snapshot. Default: `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub existing_resource_policy: Option<ExistingObjects>,
    /// Whether to only report what would be changed. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

string_enum! {
    /// What a Recovery does with objects that exist.
    pub enum ExistingObjects {
        /// They stay unchanged.
        Keep = "none",
        /// They are patched to their state in the snapshot.
        Update = "update",
    }
}
