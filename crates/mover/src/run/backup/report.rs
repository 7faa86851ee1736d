//! The full report of a backup, beside the data: every file that changed or could not be read. The snapshot is
//! complete without it, so a failure to write it is only a warning.

use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use lifeboat_repository::backup::BackupOutcome;
use lifeboat_store::Store;

use crate::report::{BackedUp, FullReport, Unreadable, VERSION};
use crate::task::BackupWork;

const UPLOAD_TIMEOUT: Duration = Duration::from_mins(1);

/// Why a report was not written.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReportError {
    #[error("cannot compress it: {0}")]
    Pack(#[from] std::io::Error),
    #[error("{0}; {hint}", hint = .0.hint())]
    Store(#[from] lifeboat_store::Error),
    #[error("storage took longer than {} s", UPLOAD_TIMEOUT.as_secs())]
    Late,
}

pub(super) async fn write(
    location: &Store,
    key: &str,
    uid: &str,
    work: &BackupWork,
    result: &BackedUp,
    outcome: BackupOutcome,
) -> Result<(), ReportError> {
    let unreadable = outcome.unreadable.into_iter();
    let report = FullReport {
        version: VERSION,
        uid: uid.to_owned(),
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
    let content = packed(&report)?;
    let writing = tokio::time::timeout(UPLOAD_TIMEOUT, location.put(key, content));
    Ok(writing.await.map_err(|_| ReportError::Late)??)
}

fn packed(report: &FullReport) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    serde_json::to_writer(&mut encoder, report)?;
    encoder.flush()?;
    encoder.finish()
}
