//! The files of a backup, and what it says it made besides them.

use std::collections::BTreeSet;

use lifeboat_archive::documents::{self, BackupVolumeInfo};
use lifeboat_archive::{BackupFiles, RestoreFiles, StoreError};
use serde::de::DeserializeOwned;

use crate::locations::{self, Location};

/// CSI snapshots that the archive does not know: each is named, so that nothing is left behind in silence. All others are
/// deleted by their action. `contents`: the VolumeSnapshotContents of the archive.
pub(super) async fn volume_data(
    location: &Location,
    backup: &str,
    contents: &BTreeSet<String>,
) -> Vec<String> {
    let Ok(files) = BackupFiles::new(backup) else { return Vec::new() };
    match list::<BackupVolumeInfo>(location, &files.volume_info()).await {
        Ok(volumes) => {
            let kept = volumes.iter().filter(|volume| !volume.skipped && volume.result != "failed");
            kept.filter_map(|volume| of_volume(volume, contents)).collect()
        }
        Err(words) => vec![words],
    }
}

/// What remains of one volume, where something does.
fn of_volume(volume: &BackupVolumeInfo, contents: &BTreeSet<String>) -> Option<String> {
    let BackupVolumeInfo { pvc_namespace, pvc_name, .. } = volume;
    let csi = volume.csi_snapshot_info.as_ref().filter(|csi| !contents.contains(&csi.vsc_name))?;
    let (handle, content) = (&csi.snapshot_handle, &csi.vsc_name);
    (!handle.is_empty() || !content.is_empty()).then(|| {
        format!(
            "the CSI snapshot '{handle}' of claim '{pvc_namespace}/{pvc_name}' remains: the archive does not have its \
             VolumeSnapshotContent '{content}'"
        )
    })
}

pub(super) async fn list<T: DeserializeOwned>(location: &Location, key: &str) -> Result<Vec<T>, String> {
    match location.store.get(key, documents::DOCUMENT_LIMIT).await {
        Ok(stored) => {
            documents::decode_list(&stored).map_err(|error| format!("'{key}' cannot be read: {error}"))
        }
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        Err(error) => Err(format!("cannot read '{key}': {}", locations::words(&error))),
    }
}

/// Deletes the files of a backup. The one that makes it a backup goes first, so that half a backup is never synced.
pub(super) async fn of_backup(location: &Location, backup: &str) -> Option<String> {
    let files = BackupFiles::new(backup).ok()?;
    let deleted = async {
        location.store.delete(&[files.metadata()]).await?;
        remove_below(location, &files.directory()).await
    };
    said(deleted.await, location, &files.directory())
}

/// Deletes the files of a restore.
pub(super) async fn of_restore(location: &Location, restore: &str) -> Option<String> {
    let files = RestoreFiles::new(restore).ok()?;
    said(remove_below(location, &files.directory()).await, location, &files.directory())
}

async fn remove_below(location: &Location, directory: &str) -> Result<(), StoreError> {
    let keys = location.store.keys(directory).await?;
    location.store.delete(&keys).await?;
    location.store.abort_uploads(directory).await?;
    let left = location.store.keys(directory).await?;
    match left.first() {
        None => Ok(()),
        Some(key) => Err(StoreError::Source(format!("'{key}' is still there after its deletion"))),
    }
}

fn said(outcome: Result<(), StoreError>, location: &Location, directory: &str) -> Option<String> {
    let error = outcome.err()?;
    let name = &location.name;
    Some(format!("files below '{directory}' in location '{name}' remain: {}", locations::words(&error)))
}
