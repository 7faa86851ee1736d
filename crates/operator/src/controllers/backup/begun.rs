//! Operations that an interrupted attempt began: cancelled, because the next attempt begins them anew, or because nobody
//! will ever ask for them. What may go on is given back in words.

use kube::Resource;
use lifeboat_api::velero::{Backup, BackupSpec};

use crate::backup::ADOPTED;
use crate::backup::journal::{Journal, OperationEntry};
use crate::context::Context;
use crate::operations::Silent;

/// Cancels the operations that the journal has. An error is worth another try.
pub(super) async fn cancel(context: &Context, journal: &Journal) -> Result<Vec<String>, String> {
    // Those of CSI snapshots have the same name in the next attempt, which takes them over.
    cancel_some(context, journal, |entry| !ADOPTED.contains(&entry.action.as_str())).await
}

async fn cancel_some(
    context: &Context,
    journal: &Journal,
    which: impl Fn(&OperationEntry) -> bool,
) -> Result<Vec<String>, String> {
    let (mut entries, mut left) = journal.operations().await?;
    entries.retain(which);
    if entries.is_empty() {
        return Ok(left);
    }
    let (acting, mut silent) = (context.acting_quietly(), Silent::default());
    for entry in entries {
        let OperationEntry { action, operation, item, .. } = &entry;
        let problem = match acting.actions.backup.iter().find(|known| known.name() == action) {
            None => "the action is not installed".to_owned(),
            Some(known) => {
                match silent
                    .ask(
                        action,
                        known.cancel(operation, &backup(&entry, journal, &context.settings.namespace)),
                    )
                    .await
                {
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
            "operation {operation} of action {action} for {item} had begun when the backup was interrupted, and may go on: it could not be cancelled: {problem}"
        ));
    }
    acting.close().await;
    Ok(left)
}

/// The same where nothing follows: whatever cannot be done is told.
pub(super) async fn discard(context: &Context, journal: &Journal) -> Vec<String> {
    let left = cancel_some(context, journal, |_| true).await;
    let left = left.unwrap_or_else(|error| vec![format!("operations of actions may go on: {error}")]);
    for words in &left {
        tracing::warn!(words, "an operation may go on");
    }
    left
}

/// Actions are handed the Backup, which may be gone: they know it by its name and UID.
fn backup(entry: &OperationEntry, journal: &Journal, namespace: &str) -> Backup {
    let mut backup = Backup::new(&entry.backup, BackupSpec::default());
    backup.meta_mut().namespace = Some(namespace.to_owned());
    backup.meta_mut().uid = Some(journal.uid().to_owned());
    backup
}
