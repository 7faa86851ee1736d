//! `Schedule`: makes backups from a template at the times of a cron expression.
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
    doc = "Makes a backup from a template at regular times.",
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
        description = "Time since the last backup was made"
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
        description = "Whether no backups are made for now"
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
    /// The specification of each backup this schedule makes.
    pub template: BackupSpec,
    /// When to make a backup: a cron expression of five fields, `@daily` and the like, or `@every 6h`. A
    /// leading `CRON_TZ=Europe/Berlin` sets the time zone. Default zone: the server's, normally UTC.
    pub schedule: String,
    /// Whether the backups are owned by this schedule, so that they are deleted from the cluster (and synced
    /// again from storage) when it is. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_owner_references_in_backup: Option<bool>,
    /// Whether to make no backups for now. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Whether to leave out a backup that is due at once when the schedule is created or resumed, and wait
    /// for the next time instead. Default: the server's setting, normally false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_immediately: Option<bool>,
}

string_enum! {
    /// Where a Schedule stands.
    pub enum SchedulePhase {
        /// Created; the server has not processed it yet.
        New = "New",
        /// Valid; backups are made at the given times.
        Enabled = "Enabled",
        /// Makes no backups: the specification is wrong, `validationErrors` says why.
        FailedValidation = "FailedValidation",
    }
}

/// What a Schedule has done so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleStatus {
    /// Whether the schedule is valid and at work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<SchedulePhase>,
    /// When the last backup of this schedule was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_backup: Option<Time>,
    /// When a due backup was last left out on purpose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_skipped: Option<Time>,
    /// What is wrong with the specification, one sentence for each problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation_errors: Option<Vec<String>>,
}

impl Schedule {
    /// Where the schedule stands; one without a phase is new.
    pub fn phase(&self) -> &SchedulePhase {
        self.status.as_ref().and_then(|status| status.phase.as_ref()).unwrap_or(&SchedulePhase::New)
    }

    /// Whether it makes no backups for now.
    pub fn is_paused(&self) -> bool {
        self.spec.paused.unwrap_or_default()
    }
}
