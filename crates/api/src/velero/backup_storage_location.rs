//! `BackupStorageLocation`: a bucket, or a part of one, in which backups are stored.
//!
//! Read by its own controller and by everything that reads or writes storage; `store` gets its settings from
//! here.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{ByteString, Condition, GoDuration, SecretKeySelector, Time, base64_bytes, string_enum};

/// Which bucket, how to reach it, and what may be done in it.
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
    doc = "A place in object storage where backups are kept.",
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
        description = "Whether backups that name no location go here"
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
        description = "Whether backups may be written"
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
    /// The kind of storage: `aws` for S3 and what speaks like it, `gcp`, `azure`, or the name under which a
    /// plugin offers it; a plugin's full name such as `velero.io/aws` is the same.
    pub provider: String,
    /// Settings of the provider, such as `region`, `s3Url` or `s3ForcePathStyle`. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<BTreeMap<String, String>>,
    /// Secret with the credentials for this location. Default: those the server was installed with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<SecretKeySelector>,
    /// Which bucket, and which part of it.
    pub object_storage: ObjectStorageLocation,
    /// Whether backups that name no location are stored here. Default: false. One location at most keeps it:
    /// the newest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<bool>,
    /// Whether backups may be written and deleted. Default: `ReadWrite`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_mode: Option<AccessMode>,
    /// How often to look for backups that other clusters stored here, as a Go duration; `0s` means never.
    /// Default: the server's setting, normally 1m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup_sync_period: Option<GoDuration>,
    /// How often to check that the storage can be used, as a Go duration; `0s` means only when the location or its
    /// credentials change. Default: the server's setting, normally 1m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation_frequency: Option<GoDuration>,
}

/// A bucket, or the part of it under a prefix.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectStorageLocation {
    /// Name of the bucket; of the container on Azure.
    pub bucket: String,
    /// Path in the bucket under which everything is kept. Default: the whole bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Certificates (PEM, in base64) of the authorities that may sign the storage's certificate. Prefer
    /// `caCertRef`; both together are an error. Default: the authorities the system trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "base64_bytes")]
    pub ca_cert: Option<ByteString>,
    /// Secret in this namespace with the certificates (PEM) of the authorities that may sign the storage's
    /// certificate. Default: the authorities the system trusts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_cert_ref: Option<SecretKeySelector>,
}

string_enum! {
    /// What may be done in a location.
    pub enum AccessMode {
        /// Backups can be restored, and neither made nor deleted.
        ReadOnly = "ReadOnly",
        /// Everything.
        ReadWrite = "ReadWrite",
    }
}

string_enum! {
    /// Whether a location can be used.
    pub enum BackupStorageLocationPhase {
        /// The last check went well.
        Available = "Available",
        /// The last check failed; `message` says why.
        Unavailable = "Unavailable",
    }
}

/// What is known about a location.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupStorageLocationStatus {
    /// Whether the storage can be reached and used. Nothing is backed up or restored unless it is Available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<BackupStorageLocationPhase>,
    /// When backups in the storage were last compared with those in the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_synced_time: Option<Time>,
    /// When the storage was last checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_validation_time: Option<Time>,
    /// Why the storage is not available, and what to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Written by early versions of Velero; not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_synced_revision: Option<String>,
    /// Written by early versions of Velero; not used. See `spec.accessMode`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_mode: Option<AccessMode>,
    /// What a person should know about the location, such as that nobody has exported the repository
    /// password yet. Stock clients do not know this field.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
}

impl BackupStorageLocation {
    /// Whether the last check of the storage went well; `None` before the first one.
    pub fn phase(&self) -> Option<&BackupStorageLocationPhase> {
        self.status.as_ref()?.phase.as_ref()
    }

    /// Whether the storage can be used.
    pub fn is_available(&self) -> bool {
        self.phase() == Some(&BackupStorageLocationPhase::Available)
    }

    /// Whether backups that name no location go here.
    pub fn is_default(&self) -> bool {
        self.spec.default.unwrap_or_default()
    }

    /// Whether backups may be neither made nor deleted here.
    pub fn is_read_only(&self) -> bool {
        self.spec.access_mode == Some(AccessMode::ReadOnly)
    }
}
