//! `Schedule`: creates backups from a template at the times of a cron expression.
//!
//! Read by the schedule controller and the schedule commands.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{Time, string_enum};
use crate::velero::BackupSpec;

/// When to back up, and what.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "velero.io",
    version = "v1",
    kind = "Schedule",
    plural = "schedules",
    namespaced,
    status = "ScheduleStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "sched",
    category = "lifeboat",
    doc = "Creates backups from a template on a schedule.",
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.phase",
        description = "Whether the schedule is valid and at work"
    ),
    printcolumn(
        name = "Schedule",
        type_ = "string",
        json_path = ".spec.schedule",
        description = "The times, as a cron expression"
    ),
    printcolumn(
        name = "LastBackup",
        type_ = "date",
        json_path = ".status.lastBackup",
        description = "Time since the last backup"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since this object was created"
    ),
    printcolumn(
        name = "Paused",
        type_ = "boolean",
        json_path = ".spec.paused",
        description = "Whether the schedule is paused"
    ),
    printcolumn(
        name = "Storage Location",
        type_ = "string",
        json_path = ".spec.template.storageLocation",
        priority = 1,
        description = "Where the backups are stored"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleSpec {
    /// The specification of the backups that this schedule creates.
    pub template: BackupSpec,
    /// When to back up: a cron expression of five fields, `@daily` and the like, or `@every 6h`. A
    /// leading `CRON_TZ=Europe/Berlin` sets the time zone. Default time zone: UTC.
    pub schedule: String,
    /// Whether this schedule owns its backups, so that their objects are deleted with it (and synced
    /// again from storage). Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_owner_references_in_backup: Option<bool>,
    /// Whether the schedule is paused. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Whether to skip a backup that is due when the schedule is created or unpaused, and wait
    /// for the next due time. Default: the server's setting, normally false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_immediately: Option<bool>,
}

string_enum! {
    /// Phases of a Schedule.
    pub enum SchedulePhase {
        /// Created; the server has not processed it yet.
        New = "New",
        /// Valid; backups are created at the due times.
        Enabled = "Enabled",
        /// Creates no backups: the specification is invalid, see `validationErrors`.
        FailedValidation = "FailedValidation",
    }
}

/// State of a Schedule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleStatus {
    /// Whether the schedule is valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<SchedulePhase>,
    /// When the last backup of this schedule was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_backup: Option<Time>,
    /// When a due backup was last skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_skipped: Option<Time>,
    /// Problems of the specification, one entry each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation_errors: Option<Vec<String>>,
}

impl Schedule {
    /// The phase; `New` if none is set.
    pub fn phase(&self) -> &SchedulePhase {
        self.status.as_ref().and_then(|status| status.phase.as_ref()).unwrap_or(&SchedulePhase::New)
    }

    /// Whether the schedule is paused.
    pub fn is_paused(&self) -> bool {
        self.spec.paused.unwrap_or_default()
    }
}
