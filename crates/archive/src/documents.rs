//! The files beside the archive, as Velero writes and reads them: compressed JSON. Each type here is a wire format;
//! lists that Velero may write as `null` are read as empty.

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

/// The largest decompressed size of a document that is read.
pub const DOCUMENT_LIMIT: usize = 256 * 1024 * 1024;

/// Why a document cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    #[error("it cannot be decompressed: {0}")]
    Gzip(#[from] std::io::Error),
    #[error("it is larger than {0} bytes")]
    TooLarge(usize),
    #[error("it is not valid JSON of the expected form: {0}")]
    Json(#[from] serde_json::Error),
}

/// Encodes a document as it is stored.
pub fn encode<T: Serialize + ?Sized>(document: &T) -> Result<Bytes, DocumentError> {
    let mut json = serde_json::to_vec(document)?;
    json.push(b'\n');
    Ok(upload::compress(&json)?)
}

/// The document that Velero stores for a list that does not exist, such as pod volume backups.
pub fn encode_null() -> Result<Bytes, DocumentError> {
    encode(&())
}

/// Decodes a document written by `encode` or by Velero.
pub fn decode<T: DeserializeOwned>(stored: &[u8]) -> Result<T, DocumentError> {
    let mut json = Vec::new();
    let limit = u64::try_from(DOCUMENT_LIMIT).unwrap_or(u64::MAX);
    MultiGzDecoder::new(stored).take(limit + 1).read_to_end(&mut json)?;
    if json.len() > DOCUMENT_LIMIT {
        return Err(DocumentError::TooLarge(DOCUMENT_LIMIT));
    }
    Ok(serde_json::from_slice(&json)?)
}

/// Decodes a list; `null` is an empty one.
pub fn decode_list<T: DeserializeOwned>(stored: &[u8]) -> Result<Vec<T>, DocumentError> {
    Ok(decode::<Option<Vec<T>>>(stored)?.unwrap_or_default())
}

/// The Backup object as `velero-backup.json` contains it: indented, kind and version first, not compressed.
pub fn encode_backup(backup: &lifeboat_api::velero::Backup) -> Result<Bytes, DocumentError> {
    Ok(serde_json::to_vec_pretty(backup)?.into())
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks with a reference
fn is_zero(number: &i64) -> bool {
    *number == 0
}
