//! A backup's `velero-backup.json`: whether a location has the backup, and what the file says.

use lifeboat_archive::documents::{LoadError, fetch, weight};
use lifeboat_archive::memory::{Memory, Share};
use lifeboat_archive::{BackupFiles, StoreError};
use lifeboat_plan::velero::deletion::Stored;
use serde::Deserialize;
use serde_json::Value;

use super::{Location, message};

/// More than any Backup object can have: etcd limits objects to less than 2 MiB.
const METADATA_LIMIT: usize = 2 * 1024 * 1024;

/// The most memory that the object may need once it is parsed.
const WEIGHT_LIMIT: usize = 72 * 1024 * 1024;

/// How many values of the object exist at once while it is brought into the cluster.
const COPIES: usize = 3;

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MetadataError {
    #[error("cannot be read: {}", message(.0))]
    Store(StoreError),
    #[error("cannot be read: {0}")]
    Memory(String),
    #[error("has more values than a Backup can have")]
    TooHeavy,
    #[error("is not JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl MetadataError {
    /// Whether the content of the file is the cause, so that it stays until the file is written again.
    pub(crate) fn is_lasting(&self) -> bool {
        match self {
            Self::Store(error) => matches!(error, StoreError::TooLarge { .. }),
            Self::Memory(_) => false,
            Self::TooHeavy | Self::Json(_) => true,
        }
    }
}

/// The fields that identify a stored backup.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Head {
    metadata: HeadMetadata,
    status: HeadStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct HeadMetadata {
    uid: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct HeadStatus {
    start_timestamp: Option<String>,
    phase: Option<String>,
}

/// Reads the file that makes the directory with this name a backup.
pub(crate) async fn stored_backup(location: &Location, name: &str) -> Stored {
    let Ok(files) = BackupFiles::new(name) else { return Stored::Absent };
    match head(location, &files).await {
        Ok(None) => Stored::Absent,
        Ok(Some(Head { metadata, status })) => Stored::Found {
            uid: metadata.uid.unwrap_or_default(),
            started: status.start_timestamp.unwrap_or_default(),
        },
        Err(error) => Stored::Unreadable(error.to_string()),
    }
}

/// The phase in the file; None if there is none, or the file cannot be read.
pub(crate) async fn stored_phase(location: &Location, name: &str) -> Option<String> {
    head(location, &BackupFiles::new(name).ok()?).await.ok()??.status.phase
}

async fn head(location: &Location, files: &BackupFiles) -> Result<Option<Head>, MetadataError> {
    let Some((bytes, _share)) = bytes(location, files).await? else { return Ok(None) };
    // Fields that are not named need no memory.
    Ok(Some(serde_json::from_slice(&bytes)?))
}

/// The file in memory, which was weighed and not parsed yet.
pub(crate) struct Metadata {
    bytes: bytes::Bytes,
    _stored: Share,
    weight: usize,
}

impl Metadata {
    /// None if the file does not exist.
    pub(crate) async fn read(
        location: &Location,
        files: &BackupFiles,
    ) -> Result<Option<Self>, MetadataError> {
        let Some((bytes, stored)) = bytes(location, files).await? else { return Ok(None) };
        let weight = weight(&bytes);
        if weight > WEIGHT_LIMIT {
            return Err(MetadataError::TooHeavy);
        }
        Ok(Some(Self { bytes, _stored: stored, weight }))
    }

    /// The file.
    pub(crate) fn bytes(&self) -> bytes::Bytes {
        self.bytes.clone()
    }

    /// The object, and the memory for it and for `more` bytes.
    pub(crate) async fn parse(&self, more: usize) -> Result<(Value, Share), MetadataError> {
        let share = Memory::of_process().work.take(self.weight * COPIES + more).await;
        let share = share.map_err(|error| MetadataError::Memory(error.to_string()))?;
        Ok((serde_json::from_slice(&self.bytes)?, share))
    }
}

async fn bytes(
    location: &Location,
    files: &BackupFiles,
) -> Result<Option<(bytes::Bytes, Share)>, MetadataError> {
    match fetch(location.store.as_ref(), &files.metadata(), METADATA_LIMIT).await {
        Ok(found) => Ok(found),
        Err(LoadError::Store(error)) => Err(MetadataError::Store(error)),
        Err(LoadError::Document(error)) => Err(MetadataError::Memory(error.to_string())),
    }
}
