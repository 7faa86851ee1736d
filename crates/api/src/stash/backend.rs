//! [`Backend`]: where a repository's data is stored, and the Secret with password and credentials.

use kube::KubeSchema;
use kube::core::Rule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cel;
use super::limits;
use super::volume_source::VolumeSource;

const BACKENDS: [&str; 7] = ["local", "s3", "gcs", "azure", "swift", "b2", "rest"];

/// Where data is stored: a Secret and exactly one kind of storage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = exactly_one_storage())]
#[serde(rename_all = "camelCase")]
pub struct Backend {
    /// Name of the Secret with RESTIC_PASSWORD, the storage's credentials and, where needed, CA_CERT_DATA.
    #[schemars(length(min = 1, max = limits::NAME))]
    pub storage_secret_name: String,
    /// A volume: a claim, a node's directory, an NFS server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<LocalBackend>,
    /// Amazon S3 or a compatible server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3Backend>,
    /// Google Cloud Storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gcs: Option<GcsBackend>,
    /// Azure Blob Storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub azure: Option<AzureBackend>,
    /// OpenStack Swift. Not supported: use `s3`, because OpenStack serves the same containers by its S3 API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swift: Option<SwiftBackend>,
    /// Backblaze B2, opened by its S3 API. The Secret also has B2_ENDPOINT, such as "s3.us-west-004.backblazeb2.com".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b2: Option<B2Backend>,
    /// A restic REST server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<RestBackend>,
}

fn exactly_one_storage() -> Rule {
    cel::exactly_one_of(
        &BACKENDS,
        "backend: exactly one of local, s3, gcs, azure, swift, b2, rest must be set",
    )
}

/// A repository on a volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = exactly_one_volume("local"))]
#[serde(rename_all = "camelCase")]
pub struct LocalBackend {
    /// The volume, as in a pod.
    #[serde(flatten)]
    pub volume: VolumeSource,
    /// Directory at which the volume is mounted. Not /stash or below, which is reserved.
    #[schemars(length(min = 1, max = limits::PATH))]
    #[x_kube(validation = Rule::new("self.startsWith('/')").message("mountPath must be absolute"))]
    #[x_kube(validation = Rule::new("!self.matches(r'^/+stash(/.*)?$')")
        .message("mountPath must not be /stash or below: that directory belongs to the backup itself"))]
    pub mount_path: String,
    /// Directory inside the volume. Default: the volume's root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_path: Option<String>,
}

/// Exactly one volume source beside the other fields of the object called `what`. Without any, a pod would get
/// an empty directory that ends with it.
pub(super) fn exactly_one_volume(what: &str) -> Rule {
    cel::exactly_one_of(
        VolumeSource::NAMES,
        &format!(
            "{what}: exactly one volume source, such as persistentVolumeClaim, hostPath or nfs, must be set"
        ),
    )
}

/// A repository in an S3 bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct S3Backend {
    /// Address of the server, such as "s3.amazonaws.com" or "https://minio.storage.svc:9000".
    pub endpoint: String,
    /// Name of the bucket.
    #[schemars(length(min = 1))]
    pub bucket: String,
    /// Directory inside the bucket. Default: the bucket's root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Region of the bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Whether to skip the verification of the server certificate. Prefer CA_CERT_DATA in the Secret.
    #[serde(default, rename = "insecureTLS", skip_serializing_if = "std::ops::Not::not")]
    pub insecure_tls: bool,
}

/// A repository in a bucket of Google Cloud Storage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GcsBackend {
    /// Name of the bucket.
    #[schemars(length(min = 1))]
    pub bucket: String,
    /// Directory inside the bucket. Default: the bucket's root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// How many connections to use at once. Default (or 0): 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_connections: Option<i64>,
}

/// A repository in a container of Azure Blob Storage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AzureBackend {
    /// Name of the container.
    #[schemars(length(min = 1))]
    pub container: String,
    /// Directory inside the container. Default: the container's root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// How many connections to use at once. Default (or 0): 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_connections: Option<i64>,
}

/// A repository in a container of OpenStack Swift.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SwiftBackend {
    /// Name of the container.
    #[schemars(length(min = 1))]
    pub container: String,
    /// Directory inside the container. Default: the container's root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
}

/// A repository in a bucket of Backblaze B2, which is opened by its S3 API. The Secret has B2_ACCOUNT_ID, B2_ACCOUNT_KEY (an
/// application key; the master key does not open the S3 API) and B2_ENDPOINT, the endpoint that Backblaze shows for the bucket,
/// such as "s3.us-west-004.backblazeb2.com".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct B2Backend {
    /// Name of the bucket.
    #[schemars(length(min = 1))]
    pub bucket: String,
    /// Directory inside the bucket. Default: the bucket's root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// How many connections to use at once. Default (or 0): 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_connections: Option<i64>,
}

/// A repository behind restic's REST server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestBackend {
    /// Address of the repository, such as "https://backup.example.com:8000/demo". User and password belong
    /// in the Secret.
    #[schemars(length(min = 1))]
    pub url: String,
}
