//! Kind Function: one container of a backup or restore job, with variables in it.

use k8s_openapi::api::core::v1::{ContainerPort, VolumeDevice, VolumeMount};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::runtime::ContainerRuntimeSettings;

/// A container. "${NAME}" and "${NAME:=default}" in any of its strings are replaced when it is used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "stash.appscode.com",
    version = "v1beta1",
    kind = "Function",
    derive = "Default",
    derive = "PartialEq",
    doc = "One step of a Task: a container with variables in it.",
    shortname = "fn",
    category = "lifeboat",
    category = "stash",
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.image"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct FunctionSpec {
    /// Image of the container.
    #[schemars(length(min = 1))]
    pub image: String,
    /// Program to run instead of the image's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Arguments of the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Directory in which the program starts. Default: the image's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// Ports that the container listens on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<ContainerPort>,
    /// Mounts of the Task's volumes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_mounts: Vec<VolumeMount>,
    /// Block devices among the Task's volumes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_devices: Vec<VolumeDevice>,
    /// Resources, probes, environment and the like. Settings of the invoker take precedence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_settings: Option<ContainerRuntimeSettings>,
    /// Accepted for old manifests and ignored; Kubernetes has removed pod security policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_security_policy_name: Option<String>,
}
