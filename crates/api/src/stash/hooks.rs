//! Hooks that run before and after a backup or a restore.

use k8s_openapi::api::core::v1::{ExecAction, HTTPGetAction, HTTPHeader, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use kube::core::Rule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cel;
use crate::common::string_enum;

/// Hooks of a backup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupHooks {
    /// Runs before the backup. If it fails, the backup does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_backup: Option<HookHandler>,
    /// Runs after the backup, according to its execution policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_backup: Option<PostBackupHook>,
}

/// Hooks of a restore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreHooks {
    /// Runs before the restore. If it fails, nothing is restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_restore: Option<HookHandler>,
    /// Runs after the restore, according to its execution policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_restore: Option<PostRestoreHook>,
}

/// One action: a command in a container, an HTTP request or a TCP connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = exactly_one_action())]
#[serde(rename_all = "camelCase")]
pub struct HookHandler {
    /// A command in a container of the target. It must exit with 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("has(self.command) && self.command.size() > 0")
        .field_path(".command").message("exec.command must have at least one word"))]
    pub exec: Option<ExecAction>,
    /// An HTTP GET. The response must have a status from 200 to 399.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_get: Option<HTTPGetAction>,
    /// An HTTP POST. The response must have a status from 200 to 399.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_post: Option<HttpPostAction>,
    /// A TCP connection, which must be accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_socket: Option<TCPSocketAction>,
    /// Container in which the command runs, or to whose port the hook connects. Default: the one that the pod's annotation
    /// `kubectl.kubernetes.io/default-container` names, else its first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_name: Option<String>,
}

fn exactly_one_action() -> Rule {
    cel::exactly_one_of(
        &["exec", "httpGet", "httpPost", "tcpSocket"],
        "exactly one of exec, httpGet, httpPost, tcpSocket must be set",
    )
}

/// An HTTP POST request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpPostAction {
    /// Path of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Number or name of the port.
    pub port: IntOrString,
    /// Host to connect to. Default: the pod's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// HTTP or HTTPS. Default: HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<HttpScheme>,
    /// Headers of the request; names may be repeated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub http_headers: Vec<HTTPHeader>,
    /// Body of the request: a Go template with the session's summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Form fields of the request, instead of a body.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub form: Vec<FormEntry>,
}

/// One field of a form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FormEntry {
    /// Name of the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Values of the field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

string_enum! {
    /// How an HTTP hook connects.
    pub enum HttpScheme {
        /// Plain.
        Http = "HTTP",
        /// With TLS.
        Https = "HTTPS",
    }
}

/// An action after a backup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PostBackupHook {
    /// The hook.
    #[serde(flatten)]
    pub handler: HookHandler,
    /// When it runs: Always, OnSuccess, OnFailure, or OnFinalRetryFailure (failed, and no retry is left).
    #[serde(default)]
    pub execution_policy: BackupHookPolicy,
}

/// An action after a restore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PostRestoreHook {
    /// The hook.
    #[serde(flatten)]
    pub handler: HookHandler,
    /// When it runs: Always, OnSuccess or OnFailure.
    #[serde(default)]
    pub execution_policy: RestoreHookPolicy,
}

string_enum! {
    /// When a hook after a backup runs.
    #[derive(Default)]
    pub enum BackupHookPolicy {
        /// In any case.
        #[default]
        Always = "Always",
        /// If the backup succeeded.
        OnSuccess = "OnSuccess",
        /// If the backup failed.
        OnFailure = "OnFailure",
        /// If the backup failed and no retry is left.
        OnFinalRetryFailure = "OnFinalRetryFailure",
    }
}

string_enum! {
    /// When a hook after a restore runs.
    #[derive(Default)]
    pub enum RestoreHookPolicy {
        /// In any case.
        #[default]
        Always = "Always",
        /// If the restore succeeded.
        OnSuccess = "OnSuccess",
        /// If the restore failed.
        OnFailure = "OnFailure",
    }
}
