//! Deletes the plugin snapshots of a backup that is undone, because no list would name them any more.

use std::time::Duration;

use lifeboat_api::common::BackupUid;
use lifeboat_archive::documents::DocumentError;
use lifeboat_archive::documents::{BackupVolumeInfo, NativeSnapshot, encode};
use lifeboat_archive::{ObjectStore, StoreError};
use lifeboat_plugin::ActionError;
use lifeboat_plugin::host::Session;
use tokio::time::timeout;

use super::Left;
use super::files::STEP_LIMIT;
use crate::backup::journal::Journal;
use crate::backup::storage::{Storage, list};
use crate::context::Context;
use crate::snapshot_locations::{self, SnapshotterError};

/// How long the deletion of one snapshot may take: users wait for the end of the backup.
const DELETION: Duration = Duration::from_mins(1);

/// Snapshots that could not be deleted.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Snapshots that can be deleted later.
    snapshots: Vec<NativeSnapshot>,
    /// Whether there were any snapshots at all.
    any: bool,
    /// Whether the list in storage has snapshots of another backup of the same name.
    is_shared: bool,
}

/// Deletes the snapshots that the journal records.
pub(super) async fn delete_noted(context: &Context, journal: &Journal, left: &mut Left) {
    let (entries, unreadable) = match journal.snapshots().await {
        Ok(found) => found,
        Err(error) => return left.keep(format!("snapshots may be left behind: {}", error.chain())),
    };
    for message in unreadable {
        left.keep(message);
    }
    left.native.any = !entries.is_empty();
    if entries.is_empty() {
        return;
    }
    let session = context.acting_quietly().session;
    for entry in entries {
        match delete(context, &session, &entry.snapshot).await {
            Ok(()) => journal.forget_snapshot(&entry).await,
            Err(error) => {
                left.keep(error.to_string());
                left.native.snapshots.extend(entry.id().is_some().then_some(entry.snapshot));
            }
        }
    }
    session.close().await;
}

/// Deletes the snapshots that storage lists for the backup with this UID.
pub(super) async fn delete_listed(context: &Context, storage: &Storage, uid: &BackupUid, left: &mut Left) {
    let listed = match list::<NativeSnapshot>(storage.store(), &storage.files.volume_snapshots()).await {
        Ok(listed) => listed,
        Err(problem) => return left.keep(format!("snapshots may be left behind: {problem}")),
    };
    // Another backup of the same name may have written the list.
    let (own, others): (Vec<_>, Vec<_>) = listed.into_iter().partition(|one| *uid == *one.spec.backup_uid);
    left.native.is_shared = !others.is_empty();
    left.native.any = !own.is_empty();
    if own.is_empty() {
        return;
    }
    let session = context.acting_quietly().session;
    // A snapshot without a provider's ID was never taken.
    for snapshot in own.into_iter().filter(|one| !one.status.provider_snapshot_id.is_empty()) {
        if let Err(error) = delete(context, &session, &snapshot).await {
            left.keep(error.to_string());
            left.native.snapshots.push(snapshot);
        }
    }
    session.close().await;
}

impl Kept {
    /// Rewrites the lists in storage so that they name only what is left; deleting the backup then removes exactly
    /// that.
    pub(super) async fn write(&self, storage: &Storage) {
        if !self.any || self.is_shared {
            return;
        }
        let name = storage.files.name();
        match timeout(STEP_LIMIT, self.write_lists(storage)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(backup = name, %error, "cannot write the list of snapshots that are left");
            }
            Err(_elapsed) => {
                tracing::warn!(backup = name, "the list of snapshots that are left was not written in time");
            }
        }
    }

    async fn write_lists(&self, storage: &Storage) -> Result<(), ListError> {
        let (store, files) = (storage.store(), &storage.files);
        // Of the list of volumes, the deletion of the backup still reads only the entries of data in repositories.
        let volumes = list::<BackupVolumeInfo>(store, &files.volume_info()).await.unwrap_or_default();
        let moved: Vec<_> = volumes.into_iter().filter(|volume| volume.snapshot_data_moved).collect();
        replace(store, &files.volume_info(), &moved).await?;
        store.delete(&[files.volume_plugin_backups()]).await?;
        replace(store, &files.volume_snapshots(), &self.snapshots).await
    }
}

#[derive(Debug, thiserror::Error)]
enum ListError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Document(#[from] DocumentError),
}

/// Writes a list; removes the file of an empty one.
async fn replace<T: serde::Serialize>(
    store: &dyn ObjectStore,
    key: &str,
    list: &[T],
) -> Result<(), ListError> {
    if list.is_empty() {
        return Ok(store.delete(&[key.to_owned()]).await?);
    }
    Ok(store.put(key, encode(&list)?).await?)
}

/// What is left of a snapshot that was not deleted.
#[derive(Debug, thiserror::Error)]
enum NotDeleted {
    /// Its provider's ID is unknown.
    #[error(
        "a snapshot of volume {volume} in location {location} may be left behind: its tags are velero.io/backup={backup} and velero.io/pv={volume}"
    )]
    Unknown { volume: String, location: String, backup: String },
    #[error("snapshot {id} of volume {volume} in location {location} is left behind: {cause}")]
    Left { id: String, volume: String, location: String, cause: DeletionError },
}

#[derive(Debug, thiserror::Error)]
enum DeletionError {
    #[error("{}", .0.chain())]
    Location(#[from] SnapshotterError),
    #[error(transparent)]
    Plugin(#[from] ActionError),
    #[error("the plugin does not answer")]
    Late,
}

/// Deletes one snapshot; the error says what is left.
async fn delete(context: &Context, session: &Session, snapshot: &NativeSnapshot) -> Result<(), NotDeleted> {
    let (volume, location) = (snapshot.spec.persistent_volume_name.clone(), snapshot.spec.location.clone());
    let id = snapshot.status.provider_snapshot_id.clone();
    if id.is_empty() {
        return Err(NotDeleted::Unknown { volume, location, backup: snapshot.spec.backup_name.clone() });
    }
    let deleted = async {
        let open = snapshot_locations::open(context, session, &location).await?;
        let deleting = timeout(DELETION, open.snapshotter.delete_snapshot(&id)).await;
        Ok::<(), DeletionError>(deleting.map_err(|_elapsed| DeletionError::Late)??)
    };
    deleted.await.map_err(|cause| NotDeleted::Left { id, volume, location, cause })
}
