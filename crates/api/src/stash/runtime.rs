//! [`RuntimeSettings`]: settings of the pods that do the work: environment variables, labels, annotations,
//! resources and placement of a backup or restore job.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, EnvFromSource, EnvVar, Lifecycle, LocalObjectReference, PodReadinessGate, PodSecurityContext,
    Probe, ResourceRequirements, SecurityContext, Toleration, TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings for the pod and the container that do the work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeSettings {
    /// Settings for the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRuntimeSettings>,
    /// Settings for its container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<ContainerRuntimeSettings>,
}

/// Settings for a pod; each field corresponds to the pod's field of the same name, unless noted otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodRuntimeSettings {
    /// Labels of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_labels: Option<BTreeMap<String, String>>,
    /// Annotations of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_annotations: Option<BTreeMap<String, String>>,
    /// Labels that the pod's node must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Service account of the pod. Default: one that is created for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Annotations of the service account that is created for the pod, for cloud identities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_annotations: Option<BTreeMap<String, String>>,
    /// Whether the pod gets the service account's token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub automount_service_account_token: Option<bool>,
    /// Node of the pod; bypasses the scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// User, groups and other security settings of the whole pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_context: Option<PodSecurityContext>,
    /// Secrets with which the pod's images are pulled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_secrets: Option<Vec<LocalObjectReference>>,
    /// Affinity and anti-affinity to nodes and pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Scheduler that places the pod. Default: the cluster's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler_name: Option<String>,
    /// Tolerated taints of nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Vec<Toleration>>,
    /// PriorityClass of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// Priority of the pod as a number; usually the PriorityClass gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Conditions that must be true before the pod counts as ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readiness_gates: Option<Vec<PodReadinessGate>>,
    /// RuntimeClass that runs the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_class_name: Option<String>,
    /// Whether the namespace's services appear as environment variables. Default: yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_service_links: Option<bool>,
    /// How the pods are spread over zones and nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,
}

/// Settings for a container; each field corresponds to the container's field of the same name, unless noted
/// otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRuntimeSettings {
    /// Requests and limits for memory, CPU and other resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Probe after whose failure the container is restarted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub liveness_probe: Option<Probe>,
    /// Probe that determines whether the container is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readiness_probe: Option<Probe>,
    /// Commands after the container's start and before its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<Lifecycle>,
    /// User, capabilities and other security settings of the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_context: Option<SecurityContext>,
    /// CPU priority of the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nice: Option<NiceSettings>,
    /// Disk priority of the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ionice: Option<IoNiceSettings>,
    /// Secrets and ConfigMaps whose keys become environment variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_from: Option<Vec<EnvFromSource>>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<EnvVar>>,
}

/// CPU priority, as set by `nice`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NiceSettings {
    /// From -20 (highest) to 19 (lowest).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -20, max = 19))]
    pub adjustment: Option<i32>,
}

/// Disk priority, as set by `ionice`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IoNiceSettings {
    /// 0 none, 1 real time, 2 best effort, 3 idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 3))]
    pub class: Option<i32>,
    /// Priority within class 1 or 2, from 0 (highest) to 7 (lowest).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 7))]
    pub class_data: Option<i32>,
}

/// The directory for temporary files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TempDirSettings {
    /// "" for the node's disk, "Memory" for its memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub medium: Option<String>,
    /// Size limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_limit: Option<Quantity>,
    /// Whether to disable the local cache of the repository's index: less space, more requests.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_caching: bool,
}
