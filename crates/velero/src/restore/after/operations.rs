//! Operations that actions started: polled until all have ended or their time is over. Their list is in storage, so
//! that the next leader can continue.

use std::time::Duration;

use lifeboat_archive::documents::{OperationPhase, RestoreOperation};
use lifeboat_plan::catalogue::ItemId;

use super::{FinishingRestore, RestoreError, operation_timeout};
use crate::operations::{Unresponsive, answered, fail, is_over};

/// The first pause between polls; it doubles up to the longest, which is upstream's.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Waits for all operations. The error means that the restore was cancelled; the operations are then cancelled too.
pub(in crate::restore) async fn follow(rest: &mut FinishingRestore<'_>) -> Result<(), RestoreError> {
    let mut pause = FIRST_PAUSE;
    while rest.has_operations() {
        let before = rest.operations.clone();
        ask_all(rest).await;
        if rest.operations != before {
            rest.changed = true;
            // If the list could not be written, a later server polls these operations again.
            if let Err(error) = rest.keep().await {
                tracing::warn!(%error, "cannot write the operations of a restore");
            }
            rest.show().await;
        }
        if !rest.has_operations() {
            break;
        }
        if let Err(error) = rest.pause(pause).await {
            cancel_all(rest).await;
            return Err(error);
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    Ok(())
}

/// Cancels every operation that is not finished.
pub(in crate::restore) async fn cancel_all(rest: &mut FinishingRestore<'_>) {
    let (mut operations, mut silent) = (std::mem::take(&mut rest.operations), Unresponsive::default());
    for operation in operations.iter_mut().filter(|one| !one.status.phase.has_ended()) {
        let action = operation.spec.restore_item_action.clone();
        if let Some(known) = rest.acting.actions.restore.iter().find(|known| known.name() == action) {
            // The restore does not wait for the operation any more, whether or not it could be cancelled.
            let cancelling = known.cancel(&operation.spec.operation_id, rest.restore);
            let _ = silent.ask(&action, cancelling).await;
        }
        fail(&mut operation.status, "the restore was cancelled");
    }
    rest.operations = operations;
    rest.changed = true;
}

async fn ask_all(rest: &mut FinishingRestore<'_>) {
    let (mut operations, mut silent) = (std::mem::take(&mut rest.operations), Unresponsive::default());
    for operation in operations.iter_mut().filter(|one| !one.status.phase.has_ended()) {
        ask(rest, operation, &mut silent).await;
        if operation.status.phase == OperationPhase::Failed {
            let item = ItemId::from(operation.spec.resource_identifier.clone());
            let message = format!(
                "operation {} of {} for {item} failed: {}",
                operation.spec.operation_id, operation.spec.restore_item_action, operation.status.error
            );
            rest.error(item.namespace.as_deref(), message);
        }
    }
    rest.operations = operations;
}

/// Asks the action that started the operation for its progress.
async fn ask(rest: &FinishingRestore<'_>, operation: &mut RestoreOperation, silent: &mut Unresponsive) {
    let (id, action) = (operation.spec.operation_id.clone(), operation.spec.restore_item_action.clone());
    let known = rest.acting.actions.restore.iter().find(|known| known.name() == action);
    let Some(known) = known else {
        return fail(&mut operation.status, format!("the action {action} is not installed"));
    };
    if let Some(answer) = silent.ask(&action, known.progress(&id, rest.restore)).await {
        answered(&mut operation.status, answer);
    }
    if is_over(&operation.status, operation_timeout(rest.context, rest.restore), rest.context.now()) {
        // The time is over, whether or not the operation could be cancelled.
        let _ = silent.ask(&action, known.cancel(&id, rest.restore)).await;
        fail(&mut operation.status, "it did not end in time (spec.itemOperationTimeout)");
    }
}
