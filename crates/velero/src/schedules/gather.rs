//! Reads the backups of a schedule by their label; only names and phases are needed.

use kube::ResourceExt;
use kube::api::ListParams;
use lifeboat_api::velero::names::SCHEDULE_NAME;
use lifeboat_api::velero::{Backup, BackupPhase};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::velero::schedule::{ScheduledBackup, own_name};
use serde_json::Value;

use crate::context::Context;

pub(super) async fn backups(context: &Context, schedule: &str) -> Result<Vec<ScheduledBackup>, ApiError> {
    let resource = objects::resource_of::<Backup>();
    let api = objects::namespaced(&context.client, &context.namespace, &resource);
    let labelled = ListParams::default().labels(&format!("{SCHEDULE_NAME}={}", own_name(schedule)));
    let found = api.list(&labelled).await.attempt(format!("list the backups of schedule {schedule}"))?;
    Ok(found
        .into_iter()
        .map(|backup| {
            let phase = backup.data.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
            let phase = if phase.is_empty() { BackupPhase::New } else { phase.into() };
            ScheduledBackup { name: backup.name_any(), phase }
        })
        .collect())
}
