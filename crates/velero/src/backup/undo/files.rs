//! Files of a backup that is undone: unfinished uploads, the log, which is kept, and the files that are removed with
//! a deleted Backup.

use std::time::Duration;

use lifeboat_archive::{BackupFiles, ObjectStore, StoreError};
use tokio::time::timeout;

use crate::backup::pass::{Report, upload_failure};
use crate::backup::storage::{Storage, has_archive};

/// How long one step in storage may take: users wait for the end of the backup, and storage may be out of reach.
pub(super) const STEP_LIMIT: Duration = Duration::from_mins(1);

/// Aborts unfinished uploads. The archive is asked for by its full key, because some servers list an upload only that
/// way.
pub(in crate::backup) async fn abort_uploads(store: &dyn ObjectStore, files: &BackupFiles) {
    let aborted = async {
        let mut count = 0;
        for prefix in [files.contents(), files.log(), files.directory()] {
            count += store.abort_uploads(&prefix).await?;
        }
        Ok::<_, StoreError>(count)
    };
    match timeout(STEP_LIMIT, aborted).await {
        Ok(Ok(0)) => {}
        Ok(Ok(count)) => tracing::info!(backup = files.name(), count, "aborted open uploads"),
        Ok(Err(error)) => tracing::warn!(backup = files.name(), %error, "cannot abort open uploads"),
        Err(_) => tracing::warn!(backup = files.name(), "open uploads are not aborted in time"),
    }
}

/// Writes the log and the results of a backup that failed.
pub(in crate::backup) async fn write_failure(store: &dyn ObjectStore, files: &BackupFiles, report: &Report) {
    if timeout(STEP_LIMIT, upload_failure(store, files, report)).await.is_err() {
        tracing::warn!(backup = files.name(), "the log of a failed backup is not written in time");
    }
}

/// Removes the files of a Backup that was deleted before its end. If the archive has another size than `size`, the
/// files belong to another backup of the same name.
pub(super) async fn remove(storage: &Storage, size: Option<u64>) {
    let (store, files) = (storage.store(), &storage.files);
    let removed = async {
        if store.exists(&files.metadata()).await? || !has_archive(store, files, size).await? {
            return Ok(());
        }
        let keys = store.keys(&files.directory()).await?;
        store.delete(&keys).await
    };
    match timeout(STEP_LIMIT, removed).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(backup = files.name(), %error, "cannot remove the files of a deleted backup");
        }
        Err(_) => {
            tracing::warn!(backup = files.name(), "the files of a deleted backup are not removed in time");
        }
    }
}
