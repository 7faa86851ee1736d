//! References of the Stash kinds to other objects: a Repository, a target, a Task, the invoker of a session.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::limits;

/// An object by name and optional namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// Name of the object.
    #[schemars(length(min = 1, max = limits::NAME))]
    pub name: String,
    /// Namespace of the object. Default: the namespace of the object that refers to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// The workload, claim or application that is backed up or restored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetRef {
    /// API version of the target, such as "apps/v1". Ignored for an AppBinding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Kind of the target, such as Deployment, StatefulSet, DaemonSet, PersistentVolumeClaim or AppBinding.
    #[schemars(length(min = 1, max = limits::NAME))]
    pub kind: String,
    /// Name of the target.
    #[schemars(length(min = 1, max = limits::NAME))]
    pub name: String,
    /// Namespace of the target. Default: the namespace of the object that refers to it. Other namespaces are
    /// possible for AppBindings and for dumps of a namespace's objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Any object of the cluster, by group, kind, namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TypedObjectRef {
    /// API group of the object, without the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Kind of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Namespace of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the object.
    #[schemars(length(min = 1, max = limits::NAME))]
    pub name: String,
}

/// A Task and the values for its parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskRef {
    /// Name of the Task. Default: the built-in method for the target's kind, or the Task that the AppBinding
    /// names.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Values that override those of the Task's steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub params: Vec<Param>,
}

/// One named value for the `${NAME}` variables of a Function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Param {
    /// Name of the variable.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Its value; may be empty.
    pub value: String,
}
