//! Operations that actions go on with in the background: asked for their progress until all have ended or their time is
//! over. Their list is in storage, so that the next leader can go on.

use std::time::Duration;

use lifeboat_archive::documents::{OperationPhase, RestoreOperation};
use lifeboat_plan::catalogue::ItemId;

use super::{Rest, RestoreError, operation_timeout};
use crate::operations::{Silent, answered, fail, is_over};

/// The first pause between questions; it doubles up to the longest, which is upstream's.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Waits for all operations. The error says that the restore was cancelled; the operations are cancelled then.
pub(in crate::restore) async fn follow(rest: &mut Rest<'_>) -> Result<(), RestoreError> {
    let mut pause = FIRST_PAUSE;
    while rest.has_operations() {
        let before = rest.operations.clone();
        ask_all(rest).await;
        if rest.operations != before {
            rest.changed = true;
            // A server that goes on later asks again for what could not be written.
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

/// Cancels every operation that goes on.
pub(in crate::restore) async fn cancel_all(rest: &mut Rest<'_>) {
    let (mut operations, mut silent) = (std::mem::take(&mut rest.operations), Silent::default());
    for operation in operations.iter_mut().filter(|one| !one.status.phase.has_ended()) {
        let action = operation.spec.restore_item_action.clone();
        if let Some(known) = rest.acting.actions.restore.iter().find(|known| known.name() == action) {
            // Whether it could be cancelled does not change that the restore no longer waits for it.
            let cancelling = known.cancel(&operation.spec.operation_id, rest.restore);
            let _ = silent.ask(&action, cancelling).await;
        }
        fail(&mut operation.status, "the restore was cancelled");
    }
    rest.operations = operations;
    rest.changed = true;
}

async fn ask_all(rest: &mut Rest<'_>) {
    let (mut operations, mut silent) = (std::mem::take(&mut rest.operations), Silent::default());
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

/// One question to the action that began the operation.
async fn ask(rest: &Rest<'_>, operation: &mut RestoreOperation, silent: &mut Silent) {
    let (id, action) = (operation.spec.operation_id.clone(), operation.spec.restore_item_action.clone());
    let known = rest.acting.actions.restore.iter().find(|known| known.name() == action);
    let Some(known) = known else {
        return fail(&mut operation.status, format!("the action {action} is not installed"));
    };
    if let Some(answer) = silent.ask(&action, known.progress(&id, rest.restore)).await {
        answered(&mut operation.status, answer);
    }
    if is_over(&operation.status, operation_timeout(rest.context, rest.restore), rest.context.now()) {
        // Whether it could be cancelled does not change that its time is over.
        let _ = silent.ask(&action, known.cancel(&id, rest.restore)).await;
        fail(&mut operation.status, "it did not end in time (spec.itemOperationTimeout)");
    }
}
