//! Operations of CSI snapshots that have ended: updates the lists of volumes and results in storage. A snapshot that
//! cannot be used is deleted. Called by each poll of operations, before their list is written; until then all of this
//! is repeated.

use jiff::Timestamp;
use lifeboat_api::common::Time;
use lifeboat_archive::documents::{BackupOperation, BackupVolumeInfo, OperationPhase, Results};
use lifeboat_archive::{BackupFiles, ObjectStore};
use lifeboat_plan::velero::csi::{CLAIM_BACKUPPER, SNAPSHOT_BACKUPPER};
use serde_json::Value;

use crate::backup::problem::BackupProblem;
use crate::backup::storage::{list, put, read};
use crate::context::Context;
use crate::csi;

/// Records operations that have ended. Returns how many CSI snapshots are ready, if that changed.
pub(in crate::backup) async fn record(
    context: &Context,
    store: &dyn ObjectStore,
    files: &BackupFiles,
    before: &[BackupOperation],
    after: &[BackupOperation],
) -> Result<Option<usize>, BackupProblem> {
    let ended = before.iter().zip(after).filter(|(before, after)| {
        [SNAPSHOT_BACKUPPER, CLAIM_BACKUPPER].contains(&after.spec.backup_item_action.as_str())
            && after.status.phase.has_ended()
            && !before.status.phase.has_ended()
    });
    let ended: Vec<&BackupOperation> = ended.map(|(_, after)| after).collect();
    if ended.is_empty() {
        return Ok(None);
    }
    let mut volumes: Vec<BackupVolumeInfo> = list(store, &files.volume_info()).await?;
    let mut failures = Vec::new();
    for operation in ended {
        failures.extend(describe_volumes(context, operation, &mut volumes).await?);
    }
    if !failures.is_empty() {
        let mut results: Results = read(store, &files.results()).await?;
        for (namespace, message) in failures {
            if results.errors.all().all(|(_, known)| known != message) {
                results.errors.add(Some(&namespace), message);
            }
        }
        put(store, &files.results(), &results).await?;
    }
    put(store, &files.volume_info(), &volumes).await?;
    let ready = |info: &&BackupVolumeInfo| {
        info.csi_snapshot_info.as_ref().is_some_and(|csi| csi.ready_to_use == Some(true))
            && info.result == "succeeded"
    };
    Ok(Some(volumes.iter().filter(ready).count()))
}

/// Updates the entries of the volumes of an ended operation. Returns namespaces and messages of those that have no
/// data.
async fn describe_volumes(
    context: &Context,
    operation: &BackupOperation,
    volumes: &mut [BackupVolumeInfo],
) -> Result<Vec<(String, String)>, BackupProblem> {
    let id = &operation.spec.operation_id;
    let well = operation.status.phase == OperationPhase::Completed;
    let moved = operation.spec.backup_item_action == CLAIM_BACKUPPER;
    let upload = if moved {
        csi::upload_of(&context.client, &context.namespace, id).await.map_err(BackupProblem::Api)?
    } else {
        None
    };
    // The data mover removes what it made itself.
    if !well && !moved {
        let item = &operation.spec.resource_identifier;
        csi::remove(context, &item.namespace, &item.name).await.map_err(BackupProblem::Api)?;
    }
    let mut failures = Vec::new();
    for info in volumes.iter_mut().filter(|info| is_of(info, id)) {
        describe(info, well, upload.as_ref(), context.now());
        if !well {
            let BackupVolumeInfo { pvc_namespace, pvc_name, .. } = &*info;
            let what = if moved { "was not moved" } else { "cannot be used and was removed" };
            let error = &operation.status.error;
            let message = format!("the CSI snapshot of claim {pvc_namespace}/{pvc_name} {what}: {error}");
            failures.push((pvc_namespace.clone(), message));
        }
    }
    Ok(failures)
}

fn is_of(info: &BackupVolumeInfo, operation: &str) -> bool {
    info.csi_snapshot_info.as_ref().is_some_and(|csi| csi.operation_id == operation)
        || info.snapshot_data_movement_info.as_ref().is_some_and(|moved| moved.operation_id == operation)
}

/// Fills the entry of a volume. `upload`: the DataUpload that moved its data.
fn describe(info: &mut BackupVolumeInfo, well: bool, upload: Option<&Value>, now: Timestamp) {
    if well { "succeeded" } else { "failed" }.clone_into(&mut info.result);
    info.completion_timestamp = Some(Time(now));
    if let Some(csi) = &mut info.csi_snapshot_info {
        csi.ready_to_use = Some(well);
    }
    if let Some(moved) = &mut info.snapshot_data_movement_info {
        let status = upload.map(|upload| upload["status"].clone()).unwrap_or_default();
        let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
        moved.phase = if well { "Completed".to_owned() } else { text("phase") };
        moved.snapshot_handle = text("snapshotID");
        moved.size = status["progress"]["totalBytes"].as_i64().unwrap_or_default();
        moved.incremental_size = status["incrementalBytes"].as_i64().unwrap_or_default();
    }
}
