//! Operations that actions go on with in the background: asked for their progress until all have ended or their time is
//! over, then the Backup is finalized. Their list is in storage, so that whoever leads can go on.

use std::time::Duration;

use kube::runtime::controller::Action;
use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::Backup;
use lifeboat_archive::BackupFiles;
use lifeboat_archive::documents::{BackupOperation, DOCUMENT_LIMIT, OperationPhase, decode_list, encode};
use lifeboat_cluster::ApiError;
use lifeboat_plan::backup::phase::{self, Counts};
use serde_json::json;

use super::State;
use super::finalize::run_of;
use super::status::write;
use crate::backup::chain;
use crate::context::Context;
use crate::locations::{self, LocationError};
use crate::operations::{answered, fail, is_over};

/// How often operations are asked, as upstream.
const LOOK: Duration = Duration::from_secs(10);

/// How long an operation may take, where the spec says nothing.
const TIMEOUT: Duration = Duration::from_hours(4);

pub(super) async fn follow(context: &Context, state: &State, backup: &Backup) -> Result<Action, ApiError> {
    let this = run_of(backup);
    let name = backup.spec.storage_location.clone().unwrap_or_default();
    let location = match locations::open(context, &name).await {
        Ok(location) => location,
        Err(LocationError::Api(error)) => return Err(error),
        Err(error) => {
            tracing::warn!(backup = this.name, %error, "cannot follow the operations of a backup");
            return Ok(Action::requeue(LOOK));
        }
    };
    let Ok(files) = BackupFiles::new(&this.name) else { return Ok(Action::await_change()) };
    let stored = location.store.get(&files.item_operations(), DOCUMENT_LIMIT).await;
    let stored = stored.map_err(|error| chain(&error));
    let mut operations: Vec<BackupOperation> =
        match stored.and_then(|bytes| decode_list(&bytes).map_err(|error| error.to_string())) {
            Ok(operations) => operations,
            Err(error) => {
                tracing::warn!(backup = this.name, error, "cannot read the operations of a backup");
                return Ok(Action::requeue(LOOK));
            }
        };
    let before = operations.clone();
    for operation in operations.iter_mut().filter(|operation| !operation.status.phase.has_ended()) {
        ask(context, backup, operation).await;
    }
    if operations != before {
        let document = encode(&operations).map_err(|error| error.to_string());
        let written = match document {
            Ok(document) => {
                location.store.put(&files.item_operations(), document).await.map_err(|error| chain(&error))
            }
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            tracing::warn!(backup = this.name, error, "cannot write the operations of a backup");
            return Ok(Action::requeue(LOOK));
        }
    }
    let counts = counts(backup, &operations);
    let status = json!({
        "phase": phase::after_pass(&counts).as_str(),
        "errors": counts.errors,
        "backupItemOperationsCompleted": counts.operations - counts.operations_open - counts.operations_failed,
        "backupItemOperationsFailed": counts.operations_failed,
    });
    if operations != before || counts.operations_open == 0 {
        write(context, state, &this, &status).await?;
    }
    Ok(Action::requeue(if counts.operations_open == 0 { Duration::from_secs(1) } else { LOOK }))
}

fn counts(backup: &Backup, operations: &[BackupOperation]) -> Counts {
    let shown = backup.status.clone().unwrap_or_default();
    let number = |count: Option<i64>| count.and_then(|count| usize::try_from(count).ok()).unwrap_or_default();
    let failed = operations.iter().filter(|one| one.status.phase == OperationPhase::Failed).count();
    let open = operations.iter().filter(|one| !one.status.phase.has_ended()).count();
    let new_failures = failed.saturating_sub(number(shown.backup_item_operations_failed));
    Counts {
        errors: number(shown.errors) + new_failures,
        operations: operations.len(),
        operations_open: open,
        operations_failed: failed,
        ..Counts::default()
    }
}

/// One question to the action that began the operation.
async fn ask(context: &Context, backup: &Backup, operation: &mut BackupOperation) {
    let (id, action) = (operation.spec.operation_id.clone(), operation.spec.backup_item_action.clone());
    let known = context.actions.backup.iter().find(|known| known.name() == action);
    let Some(known) = known else {
        return fail(&mut operation.status, format!("the action {action} is not installed"));
    };
    answered(&mut operation.status, known.progress(&id, backup).await);
    let timeout = GoDuration::set(backup.spec.item_operation_timeout).and_then(GoDuration::to_std);
    if is_over(&operation.status, timeout.unwrap_or(TIMEOUT), context.now()) {
        // Whether it could be cancelled does not change that its time is over.
        let _ = known.cancel(&id, backup).await;
        fail(&mut operation.status, "the operation did not end in time (spec.itemOperationTimeout)");
    }
}
