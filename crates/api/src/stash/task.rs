//! Kind Task: Functions that run one after another to back up or restore.

use k8s_openapi::api::core::v1::Volume;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::limits;
use super::reference::Param;

/// Steps, and the volumes they share. By convention named "<database>-backup-<version>" or
/// "<database>-restore-<version>".
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "stash.appscode.com",
    version = "v1beta1",
    kind = "Task",
    derive = "Default",
    derive = "PartialEq",
    doc = "A backup or restore in steps, each of them a Function.",
    category = "lifeboat",
    category = "stash",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct TaskSpec {
    /// The Functions to run, in this order.
    #[schemars(length(min = 1))]
    pub steps: Vec<FunctionRef>,
    /// Volumes that the Functions mount.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Volume>,
}

/// A Function, and values for its variables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FunctionRef {
    /// Name of the Function.
    #[schemars(length(min = 1, max = limits::NAME))]
    pub name: String,
    /// Values for its variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub params: Vec<Param>,
}
