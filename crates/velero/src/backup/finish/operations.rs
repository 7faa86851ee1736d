//! Follows the operations that actions started: polls their progress until all have ended or their time is over; then
//! the Backup is finalized. Their list is in storage, so that the next leader can continue.

use std::time::Duration;

use kube::ResourceExt;
use kube::runtime::controller::Action;
use lifeboat_api::velero::Backup;
use lifeboat_archive::documents::{BackupOperation, OperationPhase};
use lifeboat_cluster::ApiError;
use lifeboat_control::locked;
use lifeboat_plan::items::waits::WAITING;
use lifeboat_plan::velero::backup::phase::{self, Counts};
use lifeboat_plan::velero::backup::{CANCEL, is_cancelled};
use lifeboat_plugin::Registry;
use serde_json::{Value, json};

use crate::backup::State;
use crate::backup::pass::longest;
use crate::backup::problem::{BackupProblem, wait};
use crate::backup::status::Run;
use crate::backup::status::write_noted;
use crate::backup::storage::{open, put, read};
use crate::backup::volumes::csi::ended;
use crate::backup::volumes::native::follow::{Snapshots, follow as follow_snapshots};
use crate::context::Context;
use crate::operations::{Unresponsive, answered, fail, is_over};

/// How often operations are polled, as upstream does.
const LOOK: Duration = Duration::from_secs(10);

/// Polls all operations, and the snapshots that plugins have not finished, once.
pub(in crate::backup) async fn follow(
    context: &Context,
    state: &State,
    backup: &Backup,
) -> Result<Action, ApiError> {
    let polled = match poll(context, backup).await {
        Ok(polled) => polled,
        Err(problem) => return wait(context, state, backup, problem).await,
    };
    let this = Run::of(backup);
    locked(&state.problem).remove(&this.uid);
    let counts = counts(backup, &polled.operations, &polled.snapshots);
    let open = counts.operations_open + counts.snapshots_open;
    let waits = polled.snapshots.waits.annotation();
    let is_shown = backup.annotations().get(WAITING) == waits.as_ref();
    if polled.has_changed || open == 0 || !is_shown {
        let (status, annotations) = (status(&counts, polled.csi_ready), json!({WAITING: waits}));
        write_noted(context, state, &this, &status, &annotations).await?;
    }
    Ok(Action::requeue(if open == 0 { Duration::from_secs(1) } else { LOOK }))
}

/// The result of one poll.
struct Polled {
    operations: Vec<BackupOperation>,
    snapshots: Snapshots,
    /// How many CSI snapshots are ready, if that changed.
    csi_ready: Option<usize>,
    has_changed: bool,
}

async fn poll(context: &Context, backup: &Backup) -> Result<Polled, BackupProblem> {
    let storage = open(context, backup).await?;
    let (store, files) = (storage.store(), &storage.files);
    let before: Option<Vec<BackupOperation>> = read(store, &files.item_operations()).await?;
    let before = before.unwrap_or_default();
    if is_cancelled(backup.annotations().get(CANCEL).map(String::as_str)) {
        let message = "cancelled while its operations ran; nothing of it can be restored";
        return Err(BackupProblem::Gone(message.to_owned()));
    }
    let operations = ask_all(context, backup, &before).await;
    let csi_ready = ended::record(context, store, files, &before, &operations).await?;
    if operations != before {
        put(store, &files.item_operations(), &operations).await?;
    }
    let snapshots = follow_snapshots(context, backup, store, files).await?;
    let has_changed = operations != before || snapshots.changed;
    Ok(Polled { operations, snapshots, csi_ready, has_changed })
}

/// Polls every operation that has not ended.
async fn ask_all(context: &Context, backup: &Backup, before: &[BackupOperation]) -> Vec<BackupOperation> {
    // A plugin session for each poll, as upstream; only plugins that are asked are started.
    let (acting, mut silent) = (context.acting_quietly(), Unresponsive::default());
    let mut operations = before.to_vec();
    for operation in operations.iter_mut().filter(|operation| !operation.status.phase.has_ended()) {
        ask(context, &acting.actions, backup, operation, &mut silent).await;
    }
    acting.close().await;
    operations
}

fn status(counts: &Counts, csi_ready: Option<usize>) -> Value {
    let mut status = json!({
        "phase": phase::after_pass(counts).as_str(),
        "errors": counts.errors,
        "backupItemOperationsCompleted": counts.operations - counts.operations_open - counts.operations_failed,
        "backupItemOperationsFailed": counts.operations_failed,
        "volumeSnapshotsCompleted": completed(counts),
    });
    if let Some(ready) = csi_ready {
        status["csiVolumeSnapshotsCompleted"] = json!(ready);
    }
    status
}

/// None if there were no snapshots at all.
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

/// Asks the action that started the operation for its progress.
async fn ask(
    context: &Context,
    actions: &Registry,
    backup: &Backup,
    operation: &mut BackupOperation,
    silent: &mut Unresponsive,
) {
    let (id, action) = (operation.spec.operation_id.clone(), operation.spec.backup_item_action.clone());
    let known = actions.backup.iter().find(|known| known.name() == action);
    let Some(known) = known else {
        return fail(&mut operation.status, format!("the action {action} is not installed"));
    };
    if let Some(answer) = silent.ask(&action, known.progress(&id, backup)).await {
        answered(&mut operation.status, answer);
    }
    if is_over(&operation.status, longest(backup), context.now()) {
        // The time is over, whether or not the operation could be cancelled.
        let _ = silent.ask(&action, known.cancel(&id, backup)).await;
        fail(&mut operation.status, "the operation did not end in time (spec.itemOperationTimeout)");
    }
}
