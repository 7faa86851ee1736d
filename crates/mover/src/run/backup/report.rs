//! The full report of a backup, beside the data: every file that changed or could not be read. That it cannot be written
//! takes nothing away from the snapshot, so it is a warning.

use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use lifeboat_repository::backup::BackupOutcome;
use lifeboat_store::Store;

use crate::report::{BackedUp, FullReport, Unreadable};
use crate::task::{BackupWork, Task, VERSION};

const PATIENCE: Duration = Duration::from_mins(1);

/// Why the full report is missing.
#[derive(Debug, thiserror::Error)]
#[error("the full report was not written to '{key}': {cause}")]
pub(super) struct NotWritten {
    key: String,
    cause: Cause,
}

#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error(transparent)]
    Packing(std::io::Error),
    #[error("{error}; {}", error.hint())]
    Storage { error: lifeboat_store::Error },
    #[error("the storage took longer than {} s", PATIENCE.as_secs())]
    TooSlow,
}

/// Writes the report of a finished backup to `key` of its location.
pub(super) async fn write(
    location: &Store,
    key: &str,
    task: &Task,
    work: &BackupWork,
    result: &BackedUp,
    outcome: BackupOutcome,
) -> Result<(), NotWritten> {
    let unreadable = outcome.unreadable.into_iter();
    let report = FullReport {
        version: VERSION,
        uid: task.uid.clone(),
        snapshot: result.snapshot.clone(),
        host: work.host.clone(),
        files: result.files,
        bytes: result.bytes,
        bytes_added: result.bytes_added,
        bytes_stored: result.bytes_stored,
        milliseconds: result.milliseconds,
        changed: outcome.changed_while_read,
        unreadable: unreadable
            .map(|problem| Unreadable { path: problem.path, message: problem.message })
            .collect(),
    };
    put(location, key, &report).await.map_err(|cause| NotWritten { key: key.to_owned(), cause })
}

async fn put(location: &Store, key: &str, report: &FullReport) -> Result<(), Cause> {
    let content = packed(report).map_err(Cause::Packing)?;
    match tokio::time::timeout(PATIENCE, location.put(key, content)).await {
        Ok(written) => written.map_err(|error| Cause::Storage { error }),
        Err(_) => Err(Cause::TooSlow),
    }
}

fn packed(report: &FullReport) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    serde_json::to_writer(&mut encoder, report)?;
    encoder.flush()?;
    encoder.finish()
}
