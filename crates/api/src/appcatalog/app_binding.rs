//! Kind AppBinding: address, version and Secret of an application.

use k8s_openapi::api::core::v1::LocalObjectReference;
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::common::ByteString;
use crate::stash::TypedObjectRef;

/// How to connect to an application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "appcatalog.appscode.com",
    version = "v1alpha1",
    kind = "AppBinding",
    namespaced,
    derive = "Default",
    derive = "PartialEq",
    doc = "How to connect to a database or another application.",
    category = "lifeboat",
    category = "catalog",
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type"),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct AppBindingSpec {
    /// Type of the application, such as "mongodb" or "kubedb.com/mysql".
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// The object that represents the application itself, such as a KubeDB MySQL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_ref: Option<TypedObjectRef>,
    /// Version of the application, such as "8.0.35".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Address of the application.
    pub client_config: ClientConfig,
    /// Secret with user and password, in the AppBinding's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretRef>,
    /// Changes to make to the Secret's keys before they are used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    pub secret_transforms: Vec<SecretTransform>,
    /// Settings of the application that are not secret. `stash.addon` names the Tasks to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub parameters: Option<Map<String, Value>>,
    /// Secret with a client certificate and its key, in the AppBinding's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_secret: Option<SecretRef>,
}

/// An object with any fields.
fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Bytes, written in base64.
fn base64(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "byte" })
}

/// A Secret, or an object that replaces one, in the AppBinding's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    /// API group of the object. Default: the core group, for a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Kind of the object. Default: Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// The address of an application: a URL, or a Service of the cluster. Where both are set, as by KubeDB, the Service is used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = Rule::new("has(self.url) || has(self.service)")
    .message("clientConfig: url or service must be set"))]
#[serde(rename_all = "camelCase")]
pub struct ClientConfig {
    /// Address of an application outside the cluster, such as "mysql.example.com:3306". No user, no password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub url: Option<String>,
    /// Service of an application in the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceReference>,
    /// Whether to skip the verification of the server certificate. Prefer `caBundle`.
    #[serde(default, rename = "insecureSkipTLSVerify", skip_serializing_if = "std::ops::Not::not")]
    pub insecure_skip_tls_verify: bool,
    /// Certificates (PEM) of the authorities that may sign the server's certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "base64")]
    pub ca_bundle: Option<ByteString>,
    /// Host name in the server's certificate, if it differs from the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
}

/// A Service, with scheme, port and path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceReference {
    /// Scheme in front of the address, such as "https" or "postgresql".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// Namespace of the Service. Default: the AppBinding's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the Service.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Port of the Service.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// Path after the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Query after the path, without the question mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
}

/// One change to the keys of the Secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = Rule::new(
    "[has(self.renameKey), has(self.addKey), has(self.addKeysFrom), has(self.removeKey)].filter(s, s).size() == 1")
    .message("secretTransforms: exactly one of renameKey, addKey, addKeysFrom, removeKey must be set"))]
#[serde(rename_all = "camelCase")]
pub struct SecretTransform {
    /// Renames a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rename_key: Option<RenameKeyTransform>,
    /// Adds a key whose value is not secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_key: Option<AddKeyTransform>,
    /// Adds all keys of another Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_keys_from: Option<AddKeysFromTransform>,
    /// Removes a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove_key: Option<RemoveKeyTransform>,
}

/// Renames a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RenameKeyTransform {
    /// The key as it is in the Secret.
    pub from: String,
    /// The key that the application's tools expect.
    pub to: String,
}

/// Adds a key whose value is not secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddKeyTransform {
    /// The key.
    pub key: String,
    /// Its value, in base64. `stringValue` takes precedence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "base64")]
    pub value: Option<ByteString>,
    /// Its value, as a string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub string_value: Option<String>,
}

/// Adds all keys of another Secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddKeysFromTransform {
    /// The other Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalObjectReference>,
}

/// Removes a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemoveKeyTransform {
    /// The key.
    pub key: String,
}
