//! Operations that actions go on with in the background: asked for their progress until all have ended or their time is
//! over. Their list is in storage, so that whoever leads can go on.

use std::time::Duration;

use jiff::Timestamp;
use lifeboat_api::common::Time;
use lifeboat_archive::documents::{OperationPhase, RestoreOperation};
use lifeboat_plan::catalogue::ItemId;

use super::rest::{Rest, operation_timeout};

/// The first pause between questions; it doubles up to the longest, which is upstream's.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Waits for all operations. The error says that the restore was cancelled; the operations were told so.
pub(super) async fn follow(rest: &mut Rest<'_>) -> Result<(), String> {
    let mut pause = FIRST_PAUSE;
    while rest.is_waiting() {
        let before = rest.operations.clone();
        ask_all(rest).await;
        if rest.operations != before {
            // Whoever goes on later asks again for what could not be written.
            if let Err(words) = rest.keep().await {
                tracing::warn!(words, "cannot write the operations of a restore");
            }
            rest.show().await;
        }
        if !rest.is_waiting() {
            break;
        }
        if let Err(words) = rest.pause(pause).await {
            cancel_all(rest).await;
            return Err(words);
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    Ok(())
}

/// Tells every operation that goes on to end.
pub(super) async fn cancel_all(rest: &mut Rest<'_>) {
    let mut operations = std::mem::take(&mut rest.operations);
    for operation in operations.iter_mut().filter(|one| !one.status.phase.has_ended()) {
        let action = operation.spec.restore_item_action.clone();
        if let Some(known) = rest.context.actions.restore.iter().find(|known| known.name() == action) {
            // Whether it could be cancelled does not change that nobody waits for it any more.
            let _ = known.cancel(&operation.spec.operation_id, rest.restore).await;
        }
        fail(operation, "the restore was cancelled".to_owned());
    }
    rest.operations = operations;
}

async fn ask_all(rest: &mut Rest<'_>) {
    let mut operations = std::mem::take(&mut rest.operations);
    for operation in operations.iter_mut().filter(|one| !one.status.phase.has_ended()) {
        ask(rest, operation).await;
        if operation.status.phase == OperationPhase::Failed {
            let item = ItemId::from(operation.spec.resource_identifier.clone());
            let words = format!(
                "operation {} of {} for {item} failed: {}",
                operation.spec.operation_id, operation.spec.restore_item_action, operation.status.error
            );
            rest.error(item.namespace.as_deref(), words);
        }
    }
    rest.operations = operations;
}

/// One question to the action that began the operation.
async fn ask(rest: &Rest<'_>, operation: &mut RestoreOperation) {
    let (id, action) = (operation.spec.operation_id.clone(), operation.spec.restore_item_action.clone());
    let known = rest.context.actions.restore.iter().find(|known| known.name() == action);
    let Some(known) = known else {
        return fail(operation, format!("the action {action} is not installed"));
    };
    match known.progress(&id, rest.restore).await {
        Ok(progress) => {
            let status = &mut operation.status;
            status.phase = OperationPhase::InProgress;
            (status.n_completed, status.n_total) = (progress.done, progress.total);
            (status.operation_units, status.description) = (progress.units, progress.description);
            status.started = progress.started.map(Time).or(status.started.take());
            status.updated = progress.updated.map(Time).or(status.updated.take());
            if progress.completed && progress.error.is_empty() {
                status.phase = OperationPhase::Completed;
            } else if progress.completed {
                fail(operation, progress.error);
            }
        }
        Err(error) => fail(operation, error.to_string()),
    }
    if !operation.status.phase.has_ended() && is_over(rest, operation, rest.context.now()) {
        // Whether it could be cancelled does not change that its time is over.
        let _ = known.cancel(&id, rest.restore).await;
        fail(operation, "it did not end in time (spec.itemOperationTimeout)".to_owned());
    }
}

fn fail(operation: &mut RestoreOperation, words: String) {
    operation.status.phase = OperationPhase::Failed;
    operation.status.error = words;
}

fn is_over(rest: &Rest<'_>, operation: &RestoreOperation, now: Timestamp) -> bool {
    let timeout = operation_timeout(rest.context, rest.restore);
    let created = operation.status.created.as_ref().map(|time| time.0);
    created.and_then(|time| time.checked_add(timeout).ok()).is_some_and(|end| now > end)
}
