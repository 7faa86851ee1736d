//! `VolumeSnapshotLocation`: plugin and settings for volume snapshots.
//!
//! Read by the backup and restore controllers for volumes that a plugin snapshots.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{SecretKeySelector, string_enum};

/// The provider that takes the snapshots, and its settings.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "velero.io",
    version = "v1",
    kind = "VolumeSnapshotLocation",
    plural = "volumesnapshotlocations",
    namespaced,
    status = "VolumeSnapshotLocationStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "vsl",
    category = "lifeboat",
    doc = "The provider and the settings with which a plugin takes volume snapshots.",
    printcolumn(
        name = "Provider",
        type_ = "string",
        json_path = ".spec.provider",
        description = "The provider whose plugin takes the snapshots"
    ),
    printcolumn(
        name = "Phase",
        type_ = "string",
        json_path = ".status.phase",
        description = "Whether the location can be used"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since this object was created"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotLocationSpec {
    /// Name of the volume snapshotter plugin, such as `aws` or `velero.io/aws`.
    pub provider: String,
    /// Settings of the provider, such as `region`. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<BTreeMap<String, String>>,
    /// Secret with the credentials for this location. Default: Secret `cloud-credentials`, then the server's
    /// own identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<SecretKeySelector>,
}

string_enum! {
    /// Whether a location can be used.
    pub enum VolumeSnapshotLocationPhase {
        /// The plugin accepted the settings.
        Available = "Available",
        /// The plugin is missing or refused the settings; the reason is in annotation
        /// `lifeboat.io/unavailable-because`.
        Unavailable = "Unavailable",
    }
}

/// State of a location.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotLocationStatus {
    /// Whether the location can be used. Velero does not set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<VolumeSnapshotLocationPhase>,
}

impl VolumeSnapshotLocation {
    /// The phase, if one is set.
    pub fn phase(&self) -> Option<&VolumeSnapshotLocationPhase> {
        self.status.as_ref()?.phase.as_ref()
    }
}
