//! The earlier form of a Recovery, as Stash shipped it until version 0.8: the repository of one workload, paths, and the volumes
//! that get them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::LocalObjectReference;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::RecoveredVolume;
use crate::stash::limits;

/// The fields of the earlier form that no other form has.
pub(super) const FIELDS: [&str; 5] =
    ["snapshot", "paths", "recoveredVolumes", "imagePullSecrets", "nodeSelector"];

/// The fields of a Recovery of the earlier form, beside `repository`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct EarlierRecovery {
    /// Earlier form: snapshot to recover, by name or id. Default: the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Earlier form: paths to recover.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::LIST))]
    pub paths: Vec<String>,
    /// Earlier form: volumes to write to, mounted at the beginning of the paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub recovered_volumes: Vec<RecoveredVolume>,
    /// Earlier form: Secrets with which the image is pulled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// Earlier form: labels that the node of the pod must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
}
