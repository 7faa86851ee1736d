//! The files beside the archive, as Velero writes and reads them: JSON, compressed. Each type here is a wire format;
//! lists that upstream may write as `null` are read as empty.

mod operations;
mod resource_list;
mod results;
mod volumes;

use std::io::Read;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use operations::{
    BackupOperation, BackupOperationSpec, OperationPhase, OperationStatus, ResourceIdentifier,
    RestoreOperation, RestoreOperationSpec,
};
pub use resource_list::{ResourceList, RestoreAction};
pub use results::{MessageList, Results};
pub use volumes::{
    BackupVolumeInfo, CsiSnapshotInfo, DataMovementInfo, NativeSnapshot, NativeSnapshotInfo,
    NativeSnapshotSpec, NativeSnapshotStatus, PodVolumeInfo, RestoreVolumeInfo, VolumeAttributes,
};

use crate::upload;

/// The most that a document may come to when it is read.
pub const DOCUMENT_LIMIT: usize = 256 * 1024 * 1024;

/// Why a document cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    #[error("it is not compressed as it should be: {0}")]
    Gzip(#[from] std::io::Error),
    #[error("it has more than {0} bytes")]
    TooLarge(usize),
    #[error("it is no JSON of the expected form: {0}")]
    Json(#[from] serde_json::Error),
}

/// A document as it is stored.
pub fn encode<T: Serialize + ?Sized>(document: &T) -> Result<Bytes, DocumentError> {
    let mut json = serde_json::to_vec(document)?;
    json.push(b'\n');
    Ok(upload::compress(&json)?)
}

/// What upstream stores for a list that nobody made, such as pod volume backups.
pub fn encode_null() -> Result<Bytes, DocumentError> {
    encode(&())
}

/// Reads what `encode`, or Velero, wrote.
pub fn decode<T: DeserializeOwned>(stored: &[u8]) -> Result<T, DocumentError> {
    let mut json = Vec::new();
    let limit = u64::try_from(DOCUMENT_LIMIT).unwrap_or(u64::MAX);
    MultiGzDecoder::new(stored).take(limit + 1).read_to_end(&mut json)?;
    if json.len() > DOCUMENT_LIMIT {
        return Err(DocumentError::TooLarge(DOCUMENT_LIMIT));
    }
    Ok(serde_json::from_slice(&json)?)
}

/// Reads a list; `null` is an empty one.
pub fn decode_list<T: DeserializeOwned>(stored: &[u8]) -> Result<Vec<T>, DocumentError> {
    Ok(decode::<Option<Vec<T>>>(stored)?.unwrap_or_default())
}

/// The Backup object as `velero-backup.json` holds it: indented, kind and version first, not compressed.
pub fn encode_backup(backup: &lifeboat_api::velero::Backup) -> Result<Bytes, DocumentError> {
    Ok(serde_json::to_vec_pretty(backup)?.into())
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks with a reference
fn is_zero(number: &i64) -> bool {
    *number == 0
}
