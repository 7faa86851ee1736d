//! Commands to run in pods around their backup, as a Backup names them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{GoDuration, LabelSelector, atomic, string_enum};

/// Commands to run around the backup of single objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupHooks {
    /// Hooks, each with the objects it applies to. Only pods can have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Vec<BackupResourceHookSpec>>,
}

/// A set of commands and the objects they are for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupResourceHookSpec {
    /// Name of this hook, for logs and results.
    pub name: String,
    /// Namespaces in which the hook applies. Default: all.
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
    /// Commands to run, in this order, before the object and what it refers to are backed up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre: Option<Vec<BackupResourceHook>>,
    /// Commands to run, in this order, after the object and what it refers to have been backed up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post: Option<Vec<BackupResourceHook>>,
}

/// One command of a hook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupResourceHook {
    /// The command and the container to run it in.
    pub exec: ExecHook,
}

/// A command to run in a container of a running pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecHook {
    /// Name of the container to run in. Default: the pod's first container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Program and arguments. No shell is involved unless the program is one.
    #[schemars(length(min = 1))]
    pub command: Vec<String>,
    /// What a failure of the command means. `Fail` skips the remaining hooks of the object and its backup,
    /// `Continue` goes on; either way the backup ends PartiallyFailed. Default: `Continue`, as upstream acts
    /// (its own reference says `Fail`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_error: Option<HookErrorMode>,
    /// How long the command may take before it counts as failed, as a Go duration. Default, also for `0s`:
    /// 30s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<GoDuration>,
}

string_enum! {
    /// What the failure of a hook means for the object it ran for.
    pub enum HookErrorMode {
        /// The error is recorded and work on the object goes on.
        Continue = "Continue",
        /// The error is recorded and the object's remaining hooks do not run.
        Fail = "Fail",
    }
}
