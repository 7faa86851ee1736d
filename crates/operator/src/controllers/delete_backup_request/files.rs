//! The files of a backup, and what it says it made besides them.

use lifeboat_archive::documents::{self, BackupVolumeInfo};
use lifeboat_archive::{BackupFiles, RestoreFiles, StoreError};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::locations::{self, Location};

/// Volume data that this version cannot delete: each is named, so that nothing is left behind in silence. Snapshots of
/// volume plugins are deleted before.
pub(super) async fn volume_data(location: &Location, backup: &str) -> Vec<String> {
    let Ok(files) = BackupFiles::new(backup) else { return Vec::new() };
    let mut problems = Vec::new();
    match list::<Value>(location, &files.pod_volume_backups()).await {
        Ok(volumes) => {
            let text = |volume: &Value, path: &str| {
                volume.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            let made = volumes.iter().filter(|volume| !text(volume, "/status/snapshotID").is_empty());
            problems.extend(made.map(|volume| {
                format!(
                    "the data of volume '{}' of pod '{}/{}' remains in its {} repository: this version does not \
                     delete it",
                    text(volume, "/spec/volume"),
                    text(volume, "/spec/pod/namespace"),
                    text(volume, "/spec/pod/name"),
                    text(volume, "/spec/uploaderType"),
                )
            }));
        }
        Err(words) => problems.push(words),
    }
    match list::<BackupVolumeInfo>(location, &files.volume_info()).await {
        Ok(volumes) => {
            problems.extend(volumes.iter().filter(|volume| !volume.skipped).filter_map(of_volume));
        }
        Err(words) => problems.push(words),
    }
    problems
}

/// What remains of one volume, where something does.
fn of_volume(volume: &BackupVolumeInfo) -> Option<String> {
    let BackupVolumeInfo { pvc_namespace, pvc_name, .. } = volume;
    if volume.snapshot_data_moved {
        return Some(format!(
            "the data of claim '{pvc_namespace}/{pvc_name}' that a data mover copied remains: this version does not \
             delete it"
        ));
    }
    let csi = volume.csi_snapshot_info.as_ref().map(|csi| (&csi.snapshot_handle, &csi.vsc_name));
    if let Some((handle, content)) = csi.filter(|(handle, content)| !handle.is_empty() || !content.is_empty())
    {
        return Some(format!(
            "the CSI snapshot '{handle}' (VolumeSnapshotContent '{content}') of claim '{pvc_namespace}/{pvc_name}' \
             remains: this version does not delete it"
        ));
    }
    None
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
