//! Commands and init containers for restored pods, as a Restore defines them.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::common::{GoDuration, LabelSelector, atomic};
use crate::velero::HookErrorMode;

/// Hooks of restored pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreHooks {
    /// Hooks, each with the objects it applies to. Only pods can have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Vec<RestoreResourceHookSpec>>,
}

/// A set of hooks and the objects they apply to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreResourceHookSpec {
    /// Name of this hook, for logs and results.
    pub name: String,
    /// Namespaces in which the hook applies, by their names after any mapping. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub included_namespaces: Option<Vec<String>>,
    /// Namespaces in which it does not apply. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excluded_namespaces: Option<Vec<String>>,
    /// Resource types it applies to. Default: all that can have hooks, which is pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub included_resources: Option<Vec<String>>,
    /// Resource types it does not apply to. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excluded_resources: Option<Vec<String>>,
    /// Applies only to objects whose labels match. Default: all objects.
    #[schemars(transform = atomic)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Hooks to run, in this order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post_hooks: Option<Vec<RestoreResourceHook>>,
}

/// One hook: a command in a running container, or init containers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreResourceHook {
    /// A command to run when the container runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecRestoreHook>,
    /// Init containers to add to the pod, before its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<InitRestoreHook>,
}

/// A command to run in a container of a restored pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecRestoreHook {
    /// Name of the container to run in. Default: the pod's first container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Program and arguments. No shell is involved unless the program is one.
    #[schemars(length(min = 1))]
    pub command: Vec<String>,
    /// What happens if the command fails. `Fail` skips the remaining hooks of the pod, `Continue` runs them;
    /// either way the restore ends PartiallyFailed. Default: `Continue`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_error: Option<HookErrorMode>,
    /// How long the command may take before it counts as failed, as a Go duration. Default, also for `0s`:
    /// 30s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec_timeout: Option<GoDuration>,
    /// How long to wait until the container runs before the hook counts as failed, as a Go duration.
    /// Default, also for `0s`: `itemOperationTimeout`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_timeout: Option<GoDuration>,
    /// Whether to wait until the container is ready instead of only running. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_for_ready: Option<bool>,
}

/// Init containers for a restored pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InitRestoreHook {
    /// Containers to run, in this order, before the pod's own init containers. Each has the form of an entry of
    /// a pod's `spec.initContainers`; the API server validates it when the pod is created.
    #[schemars(schema_with = "raw_objects")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_containers: Option<Vec<Value>>,
    /// How long they may take in total. Accepted for compatibility; Lifeboat does not enforce it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<GoDuration>,
}

/// A list of objects with any fields, so that fields of newer Kubernetes versions are kept.
fn raw_objects(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        "x-kubernetes-preserve-unknown-fields": true,
    })
}
