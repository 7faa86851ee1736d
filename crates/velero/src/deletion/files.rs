//! Deletes the files of a backup.

use lifeboat_archive::documents::{DocumentError, List, LoadError, load_list};
use lifeboat_archive::{BackupFiles, RestoreFiles, StoreError};
use serde::de::DeserializeOwned;

use crate::locations::{self, Location};

/// Why a list of a backup cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ListError {
    #[error("'{key}' cannot be read: {cause}")]
    Document { key: String, cause: DocumentError },
    #[error("cannot read '{key}': {}", locations::message(.cause))]
    Store { key: String, cause: StoreError },
}

/// Reads a list of a backup; empty if the file does not exist.
pub(super) async fn list<T>(location: &Location, key: &str) -> Result<List<T>, ListError>
where
    T: DeserializeOwned + Send + 'static,
{
    let key = key.to_owned();
    match load_list(location.store.as_ref(), &key).await {
        Ok(found) => Ok(found.unwrap_or_default()),
        Err(LoadError::Document(cause)) => Err(ListError::Document { key, cause }),
        Err(LoadError::Store(cause)) => Err(ListError::Store { key, cause }),
    }
}

/// Deletes the files of a backup. `velero-backup.json` is deleted first, so that half a backup is never synced.
pub(super) async fn of_backup(location: &Location, backup: &str) -> Option<String> {
    let files = BackupFiles::new(backup).ok()?;
    let deleted = async {
        location.store.delete(&[files.metadata()]).await?;
        remove_below(location, &files.directory()).await
    };
    remaining_message(deleted.await, location, &files.directory())
}

/// Deletes the files of a restore.
pub(super) async fn of_restore(location: &Location, restore: &str) -> Option<String> {
    let files = RestoreFiles::new(restore).ok()?;
    remaining_message(remove_below(location, &files.directory()).await, location, &files.directory())
}

async fn remove_below(location: &Location, directory: &str) -> Result<(), StoreError> {
    let keys = location.store.keys(directory).await?;
    location.store.delete(&keys).await?;
    location.store.abort_uploads(directory).await?;
    let left = location.store.keys(directory).await?;
    match left.first() {
        None => Ok(()),
        Some(key) => Err(StoreError::Source(format!("'{key}' still exists after its deletion"))),
    }
}

fn remaining_message(
    outcome: Result<(), StoreError>,
    location: &Location,
    directory: &str,
) -> Option<String> {
    let error = outcome.err()?;
    let name = &location.name;
    Some(format!("files below '{directory}' in location '{name}' remain: {}", locations::message(&error)))
}
