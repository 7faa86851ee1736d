//! Whether a location has a backup: reads its `velero-backup.json`.

use lifeboat_archive::BackupFiles;
use lifeboat_plan::velero::deletion::Stored;
use serde_json::Value;

use super::{Location, message};

/// More than any Backup object can have: etcd limits objects to less than 2 MiB.
pub(crate) const METADATA_LIMIT: usize = 16 * 1024 * 1024;

/// Reads the file that makes the directory with this name a backup.
pub(crate) async fn stored_backup(location: &Location, name: &str) -> Stored {
    let Ok(files) = BackupFiles::new(name) else { return Stored::Absent };
    let bytes = match location.store.get(&files.metadata(), METADATA_LIMIT).await {
        Ok(bytes) => bytes,
        Err(error) if error.is_not_found() => return Stored::Absent,
        Err(error) => return Stored::Unreadable(format!("cannot be read: {}", message(&error))),
    };
    match serde_json::from_slice::<Value>(&bytes) {
        Ok(json) => {
            let text = |path: &str| json.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
            Stored::Found { uid: text("/metadata/uid"), started: text("/status/startTimestamp") }
        }
        Err(error) => Stored::Unreadable(format!("is not JSON: {error}")),
    }
}
