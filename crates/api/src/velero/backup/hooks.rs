//! Commands to run in pods before and after they are backed up, as a Backup defines them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{GoDuration, LabelSelector, atomic, string_enum};

/// Commands to run before and after single objects are backed up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupHooks {
    /// Hooks, each with the objects it applies to. Only pods can have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Vec<BackupResourceHookSpec>>,
}

/// A set of commands and the objects they apply to.
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
    /// Commands to run, in this order, before the object and its additional items are backed up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre: Option<Vec<BackupResourceHook>>,
    /// Commands to run, in this order, after the object and its additional items were backed up.
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
    /// What happens if the command fails. `Fail` skips the remaining hooks of the object and leaves it out of
    /// the backup, `Continue` backs it up; either way the backup ends PartiallyFailed. Default: `Continue`,
    /// which is what Velero does (its reference says `Fail`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_error: Option<HookErrorMode>,
    /// How long the command may take before it counts as failed, as a Go duration. Default, also for `0s`:
    /// 30s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<GoDuration>,
}

string_enum! {
    /// What happens to the object if its hook fails.
    pub enum HookErrorMode {
        /// The error is recorded and the object is processed anyway.
        Continue = "Continue",
        /// The error is recorded and the object's remaining hooks do not run.
        Fail = "Fail",
    }
}
