//! `ServerStatusRequest`: requests version and plugins of the running server.
//!
//! Created by `version` and `plugin get` (ours and stock ones), read by its own controller.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{Time, string_enum};

/// Empty: the request has no parameters.
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
    doc = "Requests the version of the server and the list of its plugins.",
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
    /// Phases of a request.
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
    /// The server's version: the Velero version it is compatible with, and Lifeboat's own, such as
    /// `v1.18.3+lifeboat.0.1.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_version: Option<String>,
    /// The plugins of the server, including built-in ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugins: Option<Vec<PluginInfo>>,
}

/// One plugin of the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginInfo {
    /// Name of the plugin, such as `velero.io/aws`.
    pub name: String,
    /// Kind of the plugin, such as `ObjectStore` or `BackupItemActionV2`.
    pub kind: String,
}

impl ServerStatusRequest {
    /// The phase; `New` if none is set.
    pub fn phase(&self) -> &ServerStatusRequestPhase {
        let phase = self.status.as_ref().and_then(|status| status.phase.as_ref());
        phase.unwrap_or(&ServerStatusRequestPhase::New)
    }
}
