//! Writes what operations changed into the archive: their items are read again and the archive is written again with
//! them, as upstream does. Repeating it gives the same result, so a server may die at any point.

use std::sync::Arc;

use lifeboat_api::velero::Backup;
use lifeboat_archive::documents::{BackupOperation, Results, encode};
use lifeboat_archive::{BackupFiles, ObjectStore, WriterOptions, rewrite};
use lifeboat_cluster::chain;
use lifeboat_cluster::discovery::discover;
use lifeboat_plan::catalogue::ItemId;
use lifeboat_plan::velero::backup::results::{ResultSubject, result_message};

use crate::backup::pass::read_again;
use crate::backup::problem::BackupProblem;
use crate::backup::storage::read;
use crate::context::Context;
use crate::locations::message;

/// The result of rewriting the archive.
#[derive(Default)]
pub(super) struct Rewritten {
    /// Items that could not be read again.
    pub(super) errors: i64,
    /// The size of the new archive in bytes; None if it was not rewritten.
    pub(super) bytes: Option<u64>,
}

pub(super) async fn write_again(
    context: &Context,
    backup: &Backup,
    store: &Arc<dyn ObjectStore>,
    files: &BackupFiles,
) -> Result<Rewritten, BackupProblem> {
    let began = backup.status.as_ref().and_then(|status| status.backup_item_operations_attempted);
    if began.unwrap_or_default() == 0 {
        return Ok(Rewritten::default());
    }
    let items = items(store.as_ref(), files).await?;
    if items.is_empty() {
        return Ok(Rewritten::default());
    }
    let catalogue = Arc::new(discover(&context.client).await.map_err(BackupProblem::Api)?.catalogue);
    // The backup's log is already in storage, so actions do not write into it.
    let acting = context.acting_quietly();
    let again = read_again(&context.client, backup, catalogue, &acting.actions, items).await;
    acting.close().await;
    let mut rewritten =
        Rewritten { errors: i64::try_from(again.problems.len()).unwrap_or(i64::MAX), bytes: None };
    if !again.problems.is_empty() {
        add_problems(store.as_ref(), files, &again.problems).await?;
    }
    if !again.updates.is_empty() {
        let size = rewrite(store.clone(), &files.contents(), again.updates, &WriterOptions::default()).await;
        let size = size.map_err(|error| BackupProblem::Storage(chain(&error)))?;
        rewritten.bytes = Some(size.compressed);
    }
    Ok(rewritten)
}

/// The items that ended operations name, each once, in their order.
async fn items(store: &dyn ObjectStore, files: &BackupFiles) -> Result<Vec<ItemId>, BackupProblem> {
    let operations: Vec<BackupOperation> = read(store, &files.item_operations()).await?;
    let mut items: Vec<ItemId> = Vec::new();
    for item in operations.into_iter().flat_map(|one| one.spec.post_operation_items.unwrap_or_default()) {
        let item = ItemId::from(item);
        if !items.contains(&item) {
            items.push(item);
        }
    }
    Ok(items)
}

/// Adds an error to the backup's results for each item that could not be read again.
async fn add_problems(
    store: &dyn ObjectStore,
    files: &BackupFiles,
    problems: &[(ItemId, String)],
) -> Result<(), BackupProblem> {
    let key = files.results();
    let broken = |message: String| BackupProblem::Storage(format!("cannot add to {key}: {message}"));
    let mut results: Results = read(store, &key).await?;
    for (id, problem) in problems {
        let resource = id.resource.to_string();
        let about = ResultSubject { resource: Some(&resource), name: Some(&id.name) };
        let message = "The item is in the backup as it was before its operation; it cannot be read again";
        let text = result_message(&about, message, Some(problem));
        if results.errors.all().all(|(_, known)| known != text) {
            results.errors.add(id.namespace.as_deref(), text);
        }
    }
    let document = encode(&results).map_err(|error| broken(error.to_string()))?;
    store.put(&key, document).await.map_err(|error| broken(message(&error)))
}
