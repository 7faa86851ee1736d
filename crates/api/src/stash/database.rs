//! How Restic and Recovery connect to a database: through an AppBinding, or by address and Secret.

use kube::KubeSchema;
use kube::core::Rule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cel;
use super::limits;
use super::reference::ObjectRef;

/// One database: an AppBinding or an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = app_ref_or_url())]
#[serde(rename_all = "camelCase")]
pub struct DatabaseAccessor {
    /// AppBinding with the address of the database.
    #[serde(default, rename = "AppRef", skip_serializing_if = "Option::is_none")]
    pub app_ref: Option<ObjectRef>,
    /// Address of the database.
    #[serde(default, rename = "connectionURL", skip_serializing_if = "Option::is_none")]
    pub connection_url: Option<ConnectionUrl>,
}

fn app_ref_or_url() -> Rule {
    cel::exactly_one_of(&["AppRef", "connectionURL"], "exactly one of AppRef, connectionURL must be set")
}

/// The address of a database, and the Secret with its credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionUrl {
    /// Address, such as "https://quick-elasticsearch.demo.svc:9200".
    #[schemars(length(min = 1))]
    pub url: String,
    /// Name of the database, or "all" for every database of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// Secret with user and password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
}

/// A Secret with user and password, and their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Credentials {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = limits::NAME))]
    pub secret_name: String,
    /// Namespace of the Secret. Default: the namespace of the object that refers to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Key of the user name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_key: Option<String>,
    /// Key of the password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_key: Option<String>,
}
