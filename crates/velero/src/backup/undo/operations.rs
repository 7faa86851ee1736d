//! Cancels the operations of a backup that is undone. Operations of a running pass are in the journal, those of a
//! backup whose pass has ended in a list in storage.

use kube::{Resource, ResourceExt};
use lifeboat_api::velero::{Backup, BackupSpec};
use lifeboat_archive::documents::BackupOperation;
use lifeboat_cluster::ApiError;

use crate::backup::journal::{Journal, OperationEntry};
use crate::backup::pass::ADOPTED;
use crate::backup::storage::{Storage, list};
use crate::context::Context;
use crate::operations::Unresponsive;

/// Cancels operations that an interrupted attempt started and the next one starts again. Returns messages about those
/// that may still run; an error is worth another try.
pub(in crate::backup) async fn cancel_noted(
    context: &Context,
    journal: &Journal,
) -> Result<Vec<String>, ApiError> {
    // The operations of CSI snapshots have the same ID in the next attempt, which adopts them.
    cancel_some(context, journal, |entry| !ADOPTED.contains(&entry.action.as_str())).await
}

/// Cancels all operations of the journal; no attempt follows. Returns messages about those that may still run.
pub(super) async fn discard_noted(context: &Context, journal: &Journal) -> Vec<String> {
    let left = cancel_some(context, journal, |_| true).await;
    left.unwrap_or_else(|error| vec![format!("operations of actions may still run: {}", error.chain())])
}

async fn cancel_some(
    context: &Context,
    journal: &Journal,
    which: impl Fn(&OperationEntry) -> bool,
) -> Result<Vec<String>, ApiError> {
    let (mut entries, mut left) = journal.operations().await?;
    entries.retain(which);
    if entries.is_empty() {
        return Ok(left);
    }
    let (acting, mut silent) = (context.acting_quietly(), Unresponsive::default());
    for entry in entries {
        let OperationEntry { action, operation, item, .. } = &entry;
        let problem = match acting.actions.backup.iter().find(|known| known.name() == action) {
            None => "the action is not installed".to_owned(),
            Some(known) => {
                let backup = backup(&entry, journal, &context.namespace);
                match silent.ask(action, known.cancel(operation, &backup)).await {
                    Some(Ok(())) => {
                        journal.forget_operation(&entry).await;
                        continue;
                    }
                    Some(Err(error)) => error.to_string(),
                    None => "no answer in time".to_owned(),
                }
            }
        };
        left.push(format!(
            "operation {operation} of action {action} for {item} was started before the backup was interrupted, and may still run: it could not be cancelled: {problem}"
        ));
    }
    acting.close().await;
    Ok(left)
}

/// The Backup that is passed to an action: it may be gone, so only its name and UID are set.
fn backup(entry: &OperationEntry, journal: &Journal, namespace: &str) -> Backup {
    let mut backup = Backup::new(&entry.backup, BackupSpec::default());
    backup.meta_mut().namespace = Some(namespace.to_owned());
    backup.meta_mut().uid = Some(journal.uid().to_string());
    backup
}

/// Cancels the open operations that storage lists for this backup. Returns messages about those that may still run.
pub(super) async fn cancel_listed(context: &Context, storage: &Storage, backup: &Backup) -> Vec<String> {
    let uid = backup.uid().unwrap_or_default();
    let operations: Vec<BackupOperation> = match list(storage.store(), &storage.files.item_operations()).await
    {
        Ok(operations) => operations,
        Err(problem) => return vec![format!("operations of actions may still run: {problem}")],
    };
    let open = |one: &&BackupOperation| one.spec.backup_uid == uid && !one.status.phase.has_ended();
    let open: Vec<_> = operations.iter().filter(open).collect();
    if open.is_empty() {
        return Vec::new();
    }
    let (acting, mut silent, mut left) = (context.acting_quietly(), Unresponsive::default(), Vec::new());
    for operation in open {
        let (id, action) = (&operation.spec.operation_id, &operation.spec.backup_item_action);
        let problem = match acting.actions.backup.iter().find(|known| known.name() == action) {
            None => "the action is not installed".to_owned(),
            Some(known) => match silent.ask(action, known.cancel(id, backup)).await {
                Some(Ok(())) => continue,
                Some(Err(error)) => error.to_string(),
                None => "no answer in time".to_owned(),
            },
        };
        left.push(format!(
            "operation {id} of action {action} may still run: it could not be cancelled: {problem}"
        ));
    }
    acting.close().await;
    left
}
