//! `Restore`: restores objects and volumes of one backup into the cluster.
//!
//! Read by the restore controllers and by every command that shows restores.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod hooks;
mod status;

pub use hooks::{
    ExecRestoreHook, InitRestoreHook, RestoreHooks, RestoreResourceHook, RestoreResourceHookSpec,
};
pub use status::{RestorePhase, RestoreProgress, RestoreStatus};

use crate::common::{
    GoDuration, LabelSelector, TypedLocalObjectReference, atomic, atomic_items, string_enum,
};

/// What to restore, from which backup, and how to treat existing objects.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "velero.io",
    version = "v1",
    kind = "Restore",
    plural = "restores",
    namespaced,
    status = "RestoreStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "rst",
    category = "lifeboat",
    doc = "Restores objects and volumes of a backup into the cluster.",
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.phase",
        description = "Phase of the restore"
    ),
    printcolumn(
        name = "Backup",
        type_ = "string",
        json_path = ".spec.backupName",
        description = "The backup to restore from"
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
        description = "Time since the restore started"
    ),
    printcolumn(
        name = "Completed",
        type_ = "date",
        json_path = ".status.completionTimestamp",
        priority = 1,
        description = "Time since the restore ended"
    ),
    printcolumn(
        name = "Schedule",
        type_ = "string",
        json_path = ".spec.scheduleName",
        priority = 1,
        description = "The schedule whose newest backup is restored"
    ),
    printcolumn(
        name = "Failure",
        type_ = "string",
        json_path = ".status.failureReason",
        priority = 1,
        description = "Why the restore failed"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct RestoreSpec {
    /// Name of the backup to restore from. Either this or `scheduleName` is required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup_name: Option<String>,
    /// Name of the schedule whose newest completed backup is restored. Either this or `backupName` is required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_name: Option<String>,
    /// Namespaces to restore; `*`, `?` and `[…]` are wildcards. Default: all in the backup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub included_namespaces: Option<Vec<String>>,
    /// Namespaces to exclude, even if they are included; wildcards as above. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excluded_namespaces: Option<Vec<String>>,
    /// Resource types to restore, such as `deployments.apps`. Default: all in the backup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub included_resources: Option<Vec<String>>,
    /// Resource types to exclude. Default: none. Nodes, events and Lifeboat's own records are always excluded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excluded_resources: Option<Vec<String>>,
    /// New names for namespaces: the key is the name in the backup, the value the one to restore into.
    /// Default: every namespace keeps its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_mapping: Option<BTreeMap<String, String>>,
    /// Restores only objects whose labels match. Default: all objects. Cannot be combined with
    /// `orLabelSelectors`.
    #[schemars(transform = atomic)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Restores objects whose labels match at least one of these. Default: all objects. Cannot be combined
    /// with `labelSelector`.
    #[schemars(transform = atomic_items)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub or_label_selectors: Option<Vec<LabelSelector>>,
    /// Whether to restore the data of volumes: from snapshots and from copies. Default: true.
    #[serde(rename = "restorePVs", skip_serializing_if = "Option::is_none")]
    pub restore_pvs: Option<bool>,
    /// Resource types whose `status` is restored too. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore_status: Option<RestoreStatusSpec>,
    /// Whether services keep all their old node ports. Default: false: only ports that were set explicitly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preserve_node_ports: Option<bool>,
    /// Whether to restore cluster-scoped objects: `true` all of them, `false` none. Default: those that
    /// restored objects refer to, or all if every namespace is restored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_cluster_resources: Option<bool>,
    /// Commands and init containers for restored pods. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hooks: Option<RestoreHooks>,
    /// What to do with an object that exists in the cluster: `none` leaves it unchanged, `update` patches
    /// it to its state in the backup. Default: `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub existing_resource_policy: Option<ExistingResourcePolicy>,
    /// How long operations of actions (data movement, plugins) may take, as a Go duration. Default, also for
    /// `0s`: the server's setting, normally 4h.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item_operation_timeout: Option<GoDuration>,
    /// ConfigMap in this namespace with rules that change objects before they are restored. Default: none.
    #[schemars(transform = atomic)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_modifier: Option<TypedLocalObjectReference>,
    /// ConfigMap in this namespace with filters for single namespaces and types, in the format of a backup's
    /// resource policy. Default: none.
    #[schemars(transform = atomic)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_policy: Option<TypedLocalObjectReference>,
    /// Settings for the writing of files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uploader_config: Option<UploaderConfigForRestore>,
}

string_enum! {
    /// What to do with an object that exists in the cluster.
    ///
    /// As in upstream, the schema accepts any string; the controller rejects invalid ones.
    pub open enum ExistingResourcePolicy {
        /// Leave it unchanged.
        None = "none",
        /// Patch it to its state in the backup.
        Update = "update",
    }
}

/// Resource types whose `status` is restored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreStatusSpec {
    /// Resource types whose status is restored; `*` means all. Default: all, if `restoreStatus` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub included_resources: Option<Vec<String>>,
    /// Resource types whose status is not restored. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excluded_resources: Option<Vec<String>>,
}

/// Settings for the writing of files during a restore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UploaderConfigForRestore {
    /// Whether to leave holes where files have zeros. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_sparse_files: Option<bool>,
    /// Number of files that a mover writes in parallel, at most 16. Default: one for each core, at most 4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_files_download: Option<i64>,
}

impl Restore {
    /// The phase; `New` if none is set.
    pub fn phase(&self) -> &RestorePhase {
        self.status.as_ref().and_then(|status| status.phase.as_ref()).unwrap_or(&RestorePhase::New)
    }
}
