//! `BackupStorageLocation`: a bucket, or a part of one, in which backups are stored.
//!
//! Read by its own controller and by all code that reads or writes storage; `store` gets its settings from
//! here.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{ByteString, Condition, GoDuration, SecretKeySelector, Time, base64_bytes, string_enum};

/// The bucket, how to access it, and whether it may be written to.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "velero.io",
    version = "v1",
    kind = "BackupStorageLocation",
    plural = "backupstoragelocations",
    namespaced,
    status = "BackupStorageLocationStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "bsl",
    category = "lifeboat",
    doc = "A bucket, or a prefix in one, in which backups are stored.",
    printcolumn(
        name = "Phase",
        type_ = "string",
        json_path = ".status.phase",
        description = "Whether the storage can be reached and used"
    ),
    printcolumn(
        name = "Last Validated",
        type_ = "date",
        json_path = ".status.lastValidationTime",
        description = "Time since the storage was last checked"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since this object was created"
    ),
    printcolumn(
        name = "Default",
        type_ = "boolean",
        json_path = ".spec.default",
        description = "Whether it is the default location"
    ),
    printcolumn(
        name = "Bucket",
        type_ = "string",
        json_path = ".spec.objectStorage.bucket",
        priority = 1,
        description = "The bucket"
    ),
    printcolumn(
        name = "Access",
        type_ = "string",
        json_path = ".spec.accessMode",
        priority = 1,
        description = "Access mode"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.message",
        priority = 1,
        description = "Why the storage is not available"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct BackupStorageLocationSpec {
    /// Kind of storage: `aws` for S3 and compatible servers, `gcp`, `azure`, `lifeboat.io/local`, or the name
    /// of an object store plugin. Full names such as `velero.io/aws` are equivalent.
    pub provider: String,
    /// Settings of the provider, such as `region`, `s3Url` or `s3ForcePathStyle`. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<BTreeMap<String, String>>,
    /// Secret with the credentials for this location. Default: Secret `cloud-credentials`, then the server's
    /// own identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<SecretKeySelector>,
    /// Bucket and prefix.
    pub object_storage: ObjectStorageLocation,
    /// Whether backups that name no location are stored here. Default: false. If several locations set it, the
    /// server keeps it on the newest only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<bool>,
    /// Whether backups may be created and deleted here. Default: `ReadWrite`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_mode: Option<AccessMode>,
    /// How often to sync backups from the bucket into the cluster, as a Go duration; `0s` means never.
    /// Default: the server's setting, normally 1m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup_sync_period: Option<GoDuration>,
    /// How often to validate the location, as a Go duration; `0s` means only when the location or its
    /// credentials change. Default: the server's setting, normally 1m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation_frequency: Option<GoDuration>,
}

/// A bucket, or a prefix in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectStorageLocation {
    /// Name of the bucket, or of the container on Azure.
    pub bucket: String,
    /// Path in the bucket below which everything is stored. Default: the whole bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Certificates (PEM, in base64) of additional authorities that may sign the storage's certificate. Prefer
    /// `caCertRef`; both together are an error. Default: the system's authorities only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "base64_bytes")]
    pub ca_cert: Option<ByteString>,
    /// Secret in this namespace with the certificates (PEM) of additional authorities that may sign the
    /// storage's certificate. Default: the system's authorities only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_cert_ref: Option<SecretKeySelector>,
}

string_enum! {
    /// Access to a location.
    pub enum AccessMode {
        /// Backups can be restored, but neither created nor deleted.
        ReadOnly = "ReadOnly",
        /// Backups can be created, restored and deleted.
        ReadWrite = "ReadWrite",
    }
}

string_enum! {
    /// Whether a location can be used.
    pub enum BackupStorageLocationPhase {
        /// The last validation succeeded.
        Available = "Available",
        /// The last validation failed; see `message`.
        Unavailable = "Unavailable",
    }
}

/// State of a location.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupStorageLocationStatus {
    /// Whether the storage can be used. Backups and restores need a location that is Available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<BackupStorageLocationPhase>,
    /// When backups were last synced from the bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_synced_time: Option<Time>,
    /// When the location was last validated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_validation_time: Option<Time>,
    /// Why the location is not available, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Written by early versions of Velero; not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_synced_revision: Option<String>,
    /// Written by early versions of Velero; not used. See `spec.accessMode`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_mode: Option<AccessMode>,
    /// Conditions such as `Available`, `StorageSecure` and `RepositoryPasswordExported`. Stock clients do not
    /// know this field.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
}

impl BackupStorageLocation {
    /// The phase; `None` before the first validation.
    pub fn phase(&self) -> Option<&BackupStorageLocationPhase> {
        self.status.as_ref()?.phase.as_ref()
    }

    /// Whether the storage can be used.
    pub fn is_available(&self) -> bool {
        self.phase() == Some(&BackupStorageLocationPhase::Available)
    }

    /// Whether backups that name no location are stored here.
    pub fn is_default(&self) -> bool {
        self.spec.default.unwrap_or_default()
    }

    /// Whether backups can neither be created nor deleted here.
    pub fn is_read_only(&self) -> bool {
        self.spec.access_mode == Some(AccessMode::ReadOnly)
    }
}
