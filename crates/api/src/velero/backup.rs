//! `Backup`: stores objects and volume data of the cluster once. Its specification is also the template of a
//! Schedule.
//!
//! Read by the backup, queue, sync, expiry and delete controllers and by every command that shows backups.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod hooks;
mod status;

pub use hooks::{BackupHooks, BackupResourceHook, BackupResourceHookSpec, ExecHook, HookErrorMode};
pub use status::{BackupPhase, BackupProgress, BackupStatus, HookStatus};

use crate::common::{BackupUid, GoDuration, LabelSelector, TypedLocalObjectReference, atomic, atomic_items};

/// What to back up, where to, and how long to keep it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "velero.io",
    version = "v1",
    kind = "Backup",
    plural = "backups",
    namespaced,
    status = "BackupStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "bk",
    category = "lifeboat",
    doc = "A backup of objects and volumes of the cluster.",
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.phase",
        description = "Phase of the backup"
    ),
    printcolumn(
        name = "Errors",
        type_ = "integer",
        json_path = ".status.errors",
        description = "Number of errors; the log names them"
    ),
    printcolumn(
        name = "Warnings",
        type_ = "integer",
        json_path = ".status.warnings",
        description = "Number of warnings; the log names them"
    ),
    printcolumn(
        name = "Storage Location",
        type_ = "string",
        json_path = ".spec.storageLocation",
        description = "Where the backup is stored"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since this object was created"
    ),
    printcolumn(
        name = "Started",
        type_ = "date",
        json_path = ".status.startTimestamp",
        priority = 1,
        description = "Time since the backup started"
    ),
    printcolumn(
        name = "Completed",
        type_ = "date",
        json_path = ".status.completionTimestamp",
        priority = 1,
        description = "Time since the backup ended"
    ),
    printcolumn(
        name = "Expires",
        type_ = "string",
        json_path = ".status.expiration",
        priority = 1,
        description = "When the backup expires"
    ),
    printcolumn(
        name = "Queue",
        type_ = "integer",
        json_path = ".status.queuePosition",
        priority = 1,
        description = "Position in the queue"
    ),
    printcolumn(
        name = "Failure",
        type_ = "string",
        json_path = ".status.failureReason",
        priority = 1,
        description = "Why the backup failed"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct BackupSpec {
    /// Labels for the backups that a Schedule creates from this template. Has no effect on a Backup itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// Namespaces to back up; `*`, `?` and `[…]` are wildcards. Default: all namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub included_namespaces: Option<Vec<String>>,
    /// Namespaces to exclude, even if they are included; wildcards as above. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excluded_namespaces: Option<Vec<String>>,
    /// Resource types to back up, such as `deployments.apps`. Default: all types. Cannot be combined with the
    /// four lists for cluster-scoped and namespace-scoped types.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub included_resources: Option<Vec<String>>,
    /// Resource types to exclude. Default: none. Cannot be combined with the four lists for cluster-scoped and
    /// namespace-scoped types.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excluded_resources: Option<Vec<String>>,
    /// Cluster-scoped resource types to back up; `*` means all. Default: only objects that selected ones refer
    /// to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub included_cluster_scoped_resources: Option<Vec<String>>,
    /// Cluster-scoped resource types to exclude; `*` means all. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excluded_cluster_scoped_resources: Option<Vec<String>>,
    /// Namespace-scoped resource types to back up; `*` means all. Default: all types.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub included_namespace_scoped_resources: Option<Vec<String>>,
    /// Namespace-scoped resource types to exclude; `*` means all. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excluded_namespace_scoped_resources: Option<Vec<String>>,
    /// Backs up only objects whose labels match. Default: all objects. Cannot be combined with
    /// `orLabelSelectors`.
    #[schemars(transform = atomic)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Backs up objects whose labels match at least one of these. Default: all objects. Cannot be combined with
    /// `labelSelector`.
    #[schemars(transform = atomic_items)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub or_label_selectors: Option<Vec<LabelSelector>>,
    /// Whether to snapshot volumes. `true`: a volume that cannot be snapshotted is an error. `false`: no
    /// snapshots. Default: volumes are snapshotted where possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_volumes: Option<bool>,
    /// How long to keep the backup, as a Go duration such as `720h`. Default, also for `0s`: the server's
    /// setting, normally 720h (30 days).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<GoDuration>,
    /// Label of claims that are snapshotted together: claims with the same value form one group.
    /// Default: `velero.io/volume-group`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_group_snapshot_label_key: Option<String>,
    /// Whether to back up cluster-scoped objects: `true` all of them, `false` none. Default: those that
    /// selected objects refer to, or all if every namespace is included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_cluster_resources: Option<bool>,
    /// Commands to run in pods before and after they are backed up. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hooks: Option<BackupHooks>,
    /// Name of the BackupStorageLocation to store the backup in. Default: the location marked as default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_location: Option<String>,
    /// Names of the VolumeSnapshotLocations for snapshots by plugins, one for each provider. Default: the only
    /// location of the provider, or the one named in the server's settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_snapshot_locations: Option<Vec<String>>,
    /// Old name of `defaultVolumesToFsBackup`; still honoured if it is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_volumes_to_restic: Option<bool>,
    /// Whether to copy the files of every pod volume unless a pod's annotation excludes it. Default: the
    /// server's setting, normally false: only volumes that a pod's annotation names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_volumes_to_fs_backup: Option<bool>,
    /// Order in which objects of one type are backed up. The key is a resource type, the value a
    /// comma-separated list of `namespace/name`, or of `name` for cluster-scoped types; globs, and `~` with a
    /// regular expression, are allowed. Default: no order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordered_resources: Option<BTreeMap<String, String>>,
    /// How long to wait until the CSI driver has taken a snapshot, as a Go duration. Default, also for `0s`:
    /// 10m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csi_snapshot_timeout: Option<GoDuration>,
    /// How long operations of actions (data movement, plugins) may take, as a Go duration. Default, also for
    /// `0s`: the server's setting, normally 4h.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item_operation_timeout: Option<GoDuration>,
    /// ConfigMap in this namespace with policies that choose how each volume is backed up, and with filters for
    /// single namespaces and types. Default: none.
    #[schemars(transform = atomic)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_policy: Option<TypedLocalObjectReference>,
    /// Whether to copy the data of CSI snapshots into the storage location, so that it survives the
    /// loss of the storage system. Default: the server's setting, normally false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_move_data: Option<bool>,
    /// Data mover that copies the snapshots. Default, also for `velero`: the built-in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datamover: Option<String>,
    /// Settings for the copying of files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uploader_config: Option<UploaderConfigForBackup>,
}

/// The part of an object's metadata that a template may set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Labels to set. Default: the labels of the Schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
}

/// Settings for the copying of files during a backup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UploaderConfigForBackup {
    /// Number of files that a mover reads in parallel, at most 16. Default: one for each core, at most 4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_files_upload: Option<i64>,
}

impl Backup {
    /// The phase; `New` if none is set.
    pub fn phase(&self) -> &BackupPhase {
        self.status.as_ref().and_then(|status| status.phase.as_ref()).unwrap_or(&BackupPhase::New)
    }

    /// The object's UID; empty if it has none yet.
    pub fn backup_uid(&self) -> BackupUid {
        BackupUid::new(self.metadata.uid.as_deref().unwrap_or_default())
    }
}
