//! The Backup that a schedule creates: its name, labels, annotations, owner and spec. Used by the schedule controller
//! and by `lifeboat backup create --from-schedule`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use lifeboat_api::velero::names::SCHEDULE_NAME;
use lifeboat_api::velero::{Backup, Schedule};

use crate::label;
use crate::velero::backup::{ATTEMPT, CANCEL};

/// kubectl's record of what was applied to the schedule; on a backup it would make `kubectl apply` compare two kinds.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The name of the run at a time: the schedule's name and the time in UTC, so that clock changes cannot give two runs
/// the same name.
pub fn backup_name(schedule: &str, due: Timestamp) -> String {
    format!("{schedule}-{}", due.strftime("%Y%m%d%H%M%S"))
}

/// The value of the label `velero.io/schedule-name` on a schedule's backups.
pub fn own_name(schedule: &str) -> String {
    label::value(schedule)
}

/// The Backup to create. Its labels are the template's, or the schedule's own.
pub fn backup(schedule: &Schedule, name: &str) -> Backup {
    let template = &schedule.spec.template;
    let schedule_name = schedule.metadata.name.clone().unwrap_or_default();
    let own = template.metadata.as_ref().and_then(|metadata| metadata.labels.clone());
    let mut labels: BTreeMap<_, _> = own.or_else(|| schedule.metadata.labels.clone()).unwrap_or_default();
    labels.insert(SCHEDULE_NAME.to_owned(), own_name(&schedule_name));
    let mut annotations = schedule.metadata.annotations.clone().unwrap_or_default();
    for theirs in [LAST_APPLIED, ATTEMPT, CANCEL] {
        annotations.remove(theirs);
    }
    let owns = schedule.spec.use_owner_references_in_backup.unwrap_or_default();
    let owner = OwnerReference {
        api_version: "velero.io/v1".to_owned(),
        kind: "Schedule".to_owned(),
        name: schedule_name,
        uid: schedule.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: None,
    };
    Backup {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: schedule.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
            owner_references: owns.then(|| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: template.clone(),
        status: None,
    }
}
