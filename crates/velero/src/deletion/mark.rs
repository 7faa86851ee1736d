//! The mark of a backup whose snapshots are being deleted: its `velero-backup.json` says so before the first one goes. A
//! server that dies, or a cluster that reads the bucket later, does not take the backup for a complete one.

use bytes::Bytes;
use lifeboat_api::velero::BackupPhase;
use lifeboat_archive::BackupFiles;
use lifeboat_plan::velero::deletion::without_snapshots;
use serde_json::Value;

use crate::locations::{self, Location, Metadata};

/// Why the file cannot be changed.
#[derive(Debug, thiserror::Error)]
#[error("'{key}' cannot be changed before snapshots are deleted: {message}")]
pub(super) struct NotMarked {
    key: String,
    message: String,
}

/// The file as it was.
pub(super) struct Mark {
    key: String,
    before: Bytes,
}

/// Marks a backup that shows Completed; None if there is nothing to mark.
pub(super) async fn begin(location: &Location, name: &str) -> Result<Option<Mark>, NotMarked> {
    let Ok(files) = BackupFiles::new(name) else { return Ok(None) };
    let key = files.metadata();
    let failed = |message: String| NotMarked { key: key.clone(), message };
    let found = Metadata::read(location, &files).await.map_err(|error| failed(error.to_string()))?;
    let Some(found) = found else { return Ok(None) };
    let (mut json, _memory) = found.parse(0).await.map_err(|error| failed(error.to_string()))?;
    if json.pointer("/status/phase").and_then(Value::as_str) != Some(BackupPhase::Completed.as_str()) {
        return Ok(None);
    }
    json["status"] = without_snapshots(json["status"].take());
    let text = serde_json::to_vec_pretty(&json).map_err(|error| failed(error.to_string()))?;
    let written = location.store.put(&key, text.into()).await;
    written.map_err(|error| failed(locations::message(&error)))?;
    Ok(Some(Mark { key, before: found.bytes() }))
}

impl Mark {
    /// Nothing was deleted: the backup is as it was.
    pub(super) async fn take_back(self, location: &Location) -> Option<String> {
        let error = location.store.put(&self.key, self.before).await.err()?;
        Some(format!(
            "'{}' still says that the backup is partly deleted: {}",
            self.key,
            locations::message(&error)
        ))
    }
}
