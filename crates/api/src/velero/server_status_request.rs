//! `ServerStatusRequest`: asks the running server for its version and plugins.
//!
//! Made by `version` and `plugin get` (ours and stock ones), read by its own controller.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{Time, string_enum};

/// Nothing: the question is always the same.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "velero.io",
    version = "v1",
    kind = "ServerStatusRequest",
    plural = "serverstatusrequests",
    namespaced,
    status = "ServerStatusRequestStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "ssr",
    category = "lifeboat",
    doc = "Asks the server which version it is and which plugins it has.",
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.phase",
        description = "Whether the server has answered"
    ),
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".status.serverVersion",
        description = "The server's version"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since this object was created"
    )
)]
pub struct ServerStatusRequestSpec {}

string_enum! {
    /// How far a request has come.
    pub enum ServerStatusRequestPhase {
        /// Created; the server has not processed it yet.
        New = "New",
        /// The server has answered.
        Processed = "Processed",
    }
}

/// The server's answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerStatusRequestStatus {
    /// Whether the server has answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<ServerStatusRequestPhase>,
    /// When the server answered. The request is deleted soon after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processed_timestamp: Option<Time>,
    /// The server's version, as the version of Velero it stands for, such as `v1.18.3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_version: Option<String>,
    /// The plugins the server has, built-in ones included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugins: Option<Vec<PluginInfo>>,
}

/// One plugin of the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginInfo {
    /// Name of the plugin, such as `velero.io/aws`.
    pub name: String,
    /// What it does, such as `ObjectStore` or `BackupItemActionV2`.
    pub kind: String,
}

impl ServerStatusRequest {
    /// Whether the server has answered; a request without a phase is new.
    pub fn phase(&self) -> &ServerStatusRequestPhase {
        let phase = self.status.as_ref().and_then(|status| status.phase.as_ref());
        phase.unwrap_or(&ServerStatusRequestPhase::New)
    }
}
