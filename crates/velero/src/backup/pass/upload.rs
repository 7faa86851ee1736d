//! Uploads the files beside the archive. `velero-backup.json` is not among them: it makes the directory a backup and
//! is written last, when the Backup is finalized.

use std::time::Duration;

use bytes::Bytes;
use lifeboat_archive::documents::{DocumentError, encode, encode_null};
use lifeboat_archive::{BackupFiles, ObjectStore, StoreError};
use lifeboat_plan::velero::ownership::{OwnerId, OwnershipKeys};

use super::{Outcome, Report};
use crate::locations::message;
use crate::ownership;

/// How long the upload of the log may take: it is a stream, for which the storage layer has no limit of its own.
const LOG: Duration = Duration::from_mins(30);

/// Why a file beside the archive is not in storage.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UploadError {
    #[error("cannot make {key}: {cause}; this is a defect of Lifeboat: report it with the server's log")]
    Document { key: String, cause: DocumentError },
    #[error("cannot write {key}: {}", message(.cause))]
    Store { key: String, cause: StoreError },
    #[error("cannot write {key}: storage did not take it within {} minutes; check its load and the network, and create the backup again", LOG.as_secs() / 60)]
    Slow { key: String },
}

impl UploadError {
    /// A word from a fixed list, for metrics and logs.
    pub(crate) fn category(&self) -> &'static str {
        match self {
            Self::Document { .. } => "defect",
            Self::Store { cause, .. } => cause.category(),
            Self::Slow { .. } => "timeout",
        }
    }
}

/// Uploads all files of a pass; the log last, so that it is complete.
pub(crate) async fn upload_outcome(
    store: &dyn ObjectStore,
    files: &BackupFiles,
    outcome: &Outcome,
    report: &Report,
    proofs: (&OwnershipKeys, OwnerId<'_>),
) -> Result<(), UploadError> {
    let (keys, owner) = proofs;
    let snapshots = &ownership::snapshots(keys, owner, &outcome.snapshots);
    let mut documents = vec![
        (files.results(), encode(&outcome.results)),
        (files.resource_list(), encode(&outcome.resources)),
        (files.volume_info(), encode(&ownership::volumes(keys, owner, &outcome.volumes))),
        (files.item_operations(), encode(&outcome.operations)),
        (
            files.pod_volume_backups(),
            if outcome.velero_compatible && !outcome.copies.is_empty() {
                encode(&outcome.copies)
            } else {
                encode_null()
            },
        ),
        // Upstream writes `null` where there is no snapshot.
        (files.volume_snapshots(), if snapshots.is_empty() { encode_null() } else { encode(snapshots) }),
    ];
    if !outcome.volume_plugin_backups.is_empty() {
        documents.push((files.volume_plugin_backups(), encode(&outcome.volume_plugin_backups)));
    }
    if !outcome.copies.is_empty() {
        documents.push((files.volume_copies(), encode(&outcome.copies)));
    }
    for (key, document) in documents {
        put(store, &key, document).await?;
    }
    put_log(store, files, report).await
}

/// Uploads the log and the results of a failed backup, so that users can read why it failed.
pub(crate) async fn upload_failure(store: &dyn ObjectStore, files: &BackupFiles, report: &Report) {
    let results = put(store, &files.results(), encode(&report.results())).await;
    let log = put_log(store, files, report).await;
    if let Err(error) = results.and(log) {
        tracing::warn!(backup = files.name(), %error, "cannot write the log of a failed backup");
    }
}

async fn put(
    store: &dyn ObjectStore,
    key: &str,
    document: Result<Bytes, DocumentError>,
) -> Result<(), UploadError> {
    let document = document.map_err(|cause| UploadError::Document { key: key.to_owned(), cause })?;
    store.put(key, document).await.map_err(|cause| UploadError::Store { key: key.to_owned(), cause })
}

async fn put_log(store: &dyn ObjectStore, files: &BackupFiles, report: &Report) -> Result<(), UploadError> {
    let key = files.log();
    match tokio::time::timeout(LOG, report.log().upload(store, &key)).await {
        Ok(written) => written.map(drop).map_err(|cause| UploadError::Store { key, cause }),
        Err(_elapsed) => Err(UploadError::Slow { key }),
    }
}
