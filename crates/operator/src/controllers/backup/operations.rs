//! Operations that actions go on with in the background: asked for their progress until all have ended or their time is
//! over, then the Backup is finalized. Their list is in storage, so that whoever leads can go on.

use std::time::Duration;

use kube::ResourceExt;
use kube::runtime::controller::Action;
use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::Backup;
use lifeboat_archive::documents::{BackupOperation, DOCUMENT_LIMIT, OperationPhase, decode_list, encode};
use lifeboat_cluster::ApiError;
use lifeboat_plan::backup::phase::{self, Counts};
use lifeboat_plan::backup::{CANCEL, is_cancelled};
use lifeboat_plugin::Registry;
use serde_json::json;

use super::finalize::{Trouble, run_of, wait};
use super::status::write;
use super::storage::{Storage, open};
use super::volumes::Snapshots;
use super::{State, ended, volumes};
use crate::backup::{chain, locked};
use crate::context::Context;
use crate::operations::{Silent, answered, fail, is_over};

/// How often operations are asked, as upstream.
const LOOK: Duration = Duration::from_secs(10);

/// How long an operation may take, where the spec says nothing.
const TIMEOUT: Duration = Duration::from_hours(4);

pub(super) async fn follow(context: &Context, state: &State, backup: &Backup) -> Result<Action, ApiError> {
    let this = run_of(backup);
    let Storage { location, files } = match open(context, backup).await {
        Ok(opened) => opened,
        Err(trouble) => return wait(context, state, backup, trouble).await,
    };
    let store = location.store;
    let stored = store.get(&files.item_operations(), DOCUMENT_LIMIT).await;
    let stored = stored.map_err(|error| chain(&error));
    let mut operations: Vec<BackupOperation> =
        match stored.and_then(|bytes| decode_list(&bytes).map_err(|error| error.to_string())) {
            Ok(operations) => operations,
            Err(error) => {
                let words = format!("cannot read {}: {error}", files.item_operations());
                return wait(context, state, backup, Trouble::Storage(words)).await;
            }
        };
    if is_cancelled(backup.annotations().get(CANCEL).map(String::as_str)) {
        let message = "cancelled while its operations ran; nothing of it can be restored".to_owned();
        return wait(context, state, backup, Trouble::Gone(message)).await;
    }
    // A session for each look, as upstream; only a plugin that is asked is started.
    let acting = context.acting_quietly();
    let (before, mut silent) = (operations.clone(), Silent::default());
    for operation in operations.iter_mut().filter(|operation| !operation.status.phase.has_ended()) {
        ask(context, &acting.actions, backup, operation, &mut silent).await;
    }
    acting.close().await;
    let csi_ready = match ended::tell(context, store.as_ref(), &files, &before, &operations).await {
        Ok(ready) => ready,
        Err(trouble) => return wait(context, state, backup, trouble).await,
    };
    if operations != before {
        let document = encode(&operations).map_err(|error| error.to_string());
        let written = match document {
            Ok(document) => {
                store.put(&files.item_operations(), document).await.map_err(|error| chain(&error))
            }
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            let words = format!("cannot write {}: {error}", files.item_operations());
            return wait(context, state, backup, Trouble::Storage(words)).await;
        }
    }
    let looked = match volumes::follow(context, backup, store.as_ref(), &files).await {
        Ok(looked) => looked,
        Err(trouble) => return wait(context, state, backup, trouble).await,
    };
    locked(&state.trouble).remove(&this.uid);
    let counts = counts(backup, &operations, &looked);
    let open = counts.operations_open + counts.snapshots_open;
    let mut status = json!({
        "phase": phase::after_pass(&counts).as_str(),
        "errors": counts.errors,
        "backupItemOperationsCompleted": counts.operations - counts.operations_open - counts.operations_failed,
        "backupItemOperationsFailed": counts.operations_failed,
        "volumeSnapshotsCompleted": completed(&counts),
    });
    if let Some(ready) = csi_ready {
        status["csiVolumeSnapshotsCompleted"] = json!(ready);
    }
    if operations != before || looked.changed || open == 0 {
        write(context, state, &this, &status).await?;
    }
    Ok(Action::requeue(if open == 0 { Duration::from_secs(1) } else { LOOK }))
}

/// None where there were no snapshots at all.
fn completed(counts: &Counts) -> Option<usize> {
    (counts.snapshots > 0).then(|| counts.snapshots.saturating_sub(counts.snapshots_failed))
}

fn counts(backup: &Backup, operations: &[BackupOperation], snapshots: &Snapshots) -> Counts {
    let shown = backup.status.clone().unwrap_or_default();
    let number = |count: Option<i64>| count.and_then(|count| usize::try_from(count).ok()).unwrap_or_default();
    let failed = operations.iter().filter(|one| one.status.phase == OperationPhase::Failed).count();
    let open = operations.iter().filter(|one| !one.status.phase.has_ended()).count();
    let new_failures = failed.saturating_sub(number(shown.backup_item_operations_failed));
    let attempted = number(shown.volume_snapshots_attempted);
    let failed_before = attempted.saturating_sub(number(shown.volume_snapshots_completed));
    let failed_snapshots = snapshots.failed.max(failed_before);
    Counts {
        errors: number(shown.errors) + new_failures + failed_snapshots - failed_before,
        snapshots: attempted,
        snapshots_failed: failed_snapshots,
        snapshots_open: snapshots.open,
        operations: operations.len(),
        operations_open: open,
        operations_failed: failed,
        ..Counts::default()
    }
}

/// One question to the action that began the operation.
async fn ask(
    context: &Context,
    actions: &Registry,
    backup: &Backup,
    operation: &mut BackupOperation,
    silent: &mut Silent,
) {
    let (id, action) = (operation.spec.operation_id.clone(), operation.spec.backup_item_action.clone());
    let known = actions.backup.iter().find(|known| known.name() == action);
    let Some(known) = known else {
        return fail(&mut operation.status, format!("the action {action} is not installed"));
    };
    if let Some(answer) = silent.ask(&action, known.progress(&id, backup)).await {
        answered(&mut operation.status, answer);
    }
    let limit = GoDuration::set(backup.spec.item_operation_timeout).and_then(GoDuration::to_std);
    if is_over(&operation.status, limit.unwrap_or(TIMEOUT), context.now()) {
        // Whether it could be cancelled does not change that its time is over.
        let _ = silent.ask(&action, known.cancel(&id, backup)).await;
        fail(&mut operation.status, "the operation did not end in time (spec.itemOperationTimeout)");
    }
}
