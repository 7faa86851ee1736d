//! The directory of a backup in storage: opens it, finds out to which backup its files belong, and reads and writes
//! the files beside the archive. Called by every step after the start of a Backup.

use kube::ResourceExt;
use lifeboat_api::velero::Backup;
use lifeboat_archive::documents::{BackupOperation, LoadError, encode, load};
use lifeboat_archive::{BackupFiles, ObjectStore, StoreError};
use lifeboat_plan::velero::backup::ARCHIVE_BYTES;
use lifeboat_plan::velero::backup::undo::Files;
use lifeboat_plan::velero::deletion::Stored;
use lifeboat_store::Outage;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::backup::problem::BackupProblem;
use crate::context::Context;
use crate::locations::{self, Location, LocationError, message, stored_backup};

/// The directory of one backup.
pub(super) struct Storage {
    pub(super) location: Location,
    pub(super) files: BackupFiles,
}

/// Opens the storage of a Backup.
pub(super) async fn open(context: &Context, backup: &Backup) -> Result<Storage, BackupProblem> {
    let name = backup.spec.storage_location.clone().unwrap_or_default();
    of_backup(locations::open(context, &name).await, backup)
}

/// Opens the storage of a Backup for its pass: requests wait while storage is away.
pub(super) async fn open_patient(context: &Context, backup: &Backup) -> Result<Storage, BackupProblem> {
    let name = backup.spec.storage_location.clone().unwrap_or_default();
    of_backup(locations::open_patient(context, &name, &Outage::default()).await, backup)
}

fn of_backup(opened: Result<Location, LocationError>, backup: &Backup) -> Result<Storage, BackupProblem> {
    let location = opened.map_err(|error| match error {
        LocationError::Api(error) => BackupProblem::Api(error),
        gone @ LocationError::NotFound(_) => BackupProblem::Gone(gone.to_string()),
        other => BackupProblem::Storage(other.to_string()),
    })?;
    let files =
        BackupFiles::new(&backup.name_any()).map_err(|error| BackupProblem::Gone(error.to_string()))?;
    Ok(Storage { location, files })
}

impl Storage {
    pub(super) fn store(&self) -> &dyn ObjectStore {
        self.location.store.as_ref()
    }

    /// Which backup the files in the directory belong to, after the pass of `backup`. An error means that storage
    /// does not answer.
    pub(super) async fn files_owner(&self, backup: &Backup) -> Result<Files, BackupProblem> {
        let uid = backup.uid().unwrap_or_default();
        match stored_backup(&self.location, self.files.name()).await {
            Stored::Absent => {}
            // A file without a UID may be this backup's.
            Stored::Found { uid: found, .. } if found == uid || found.is_empty() => {
                return Ok(Files::Restorable);
            }
            Stored::Found { .. } => return Ok(Files::Unknown),
            Stored::Unreadable(message) => {
                return Err(BackupProblem::Storage(format!("{} {message}", self.files.metadata())));
            }
        }
        let Ok(operations) = list::<BackupOperation>(self.store(), &self.files.item_operations()).await
        else {
            return Ok(Files::Unknown);
        };
        if operations.iter().any(|one| one.spec.backup_uid != uid) {
            return Ok(Files::Unknown);
        }
        let noted = backup.annotations().get(ARCHIVE_BYTES).and_then(|text| text.parse().ok());
        if operations.is_empty() && noted.is_none() {
            return Ok(Files::Unknown);
        }
        // Operations change the size of the archive; then their list identifies the backup.
        let size = noted.filter(|_| operations.is_empty());
        let has = async |size| {
            let found = has_archive(self.store(), &self.files, size).await;
            found.map_err(|error| BackupProblem::Storage(message(&error)))
        };
        Ok(match (has(size).await?, size) {
            (true, _) => Files::Own,
            (false, Some(_)) if has(None).await? => Files::Unknown,
            (false, _) => Files::Begun,
        })
    }
}

/// Whether the archive exists, with this size if it is known.
pub(super) async fn has_archive(
    store: &dyn ObjectStore,
    files: &BackupFiles,
    size: Option<u64>,
) -> Result<bool, StoreError> {
    match store.get_stream(&files.contents()).await {
        Ok(found) => Ok(size.zip(found.size).is_none_or(|(size, found)| size == found)),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reads a list; empty if the file does not exist.
pub(super) async fn list<T>(store: &dyn ObjectStore, key: &str) -> Result<Vec<T>, BackupProblem>
where
    T: DeserializeOwned + Send + 'static,
{
    Ok(loaded(store, key).await?.unwrap_or_default())
}

/// Reads a file that must exist.
pub(super) async fn read<T>(store: &dyn ObjectStore, key: &str) -> Result<T, BackupProblem>
where
    T: DeserializeOwned + Send + 'static,
{
    let missing = || BackupProblem::Storage(format!("cannot read {key}: object '{key}' not found"));
    loaded(store, key).await?.ok_or_else(missing)
}

async fn loaded<T>(store: &dyn ObjectStore, key: &str) -> Result<Option<T>, BackupProblem>
where
    T: DeserializeOwned + Send + 'static,
{
    load(store, key).await.map_err(|error| {
        let cause = match &error {
            LoadError::Store(error) => message(error),
            LoadError::Document(error) => error.to_string(),
        };
        BackupProblem::Storage(format!("cannot read {key}: {cause}"))
    })
}

pub(super) async fn put<T: Serialize>(
    store: &dyn ObjectStore,
    key: &str,
    document: &T,
) -> Result<(), BackupProblem> {
    let broken = |cause: String| BackupProblem::Storage(format!("cannot write {key}: {cause}"));
    let document = encode(document).map_err(|error| broken(error.to_string()))?;
    store.put(key, document).await.map_err(|error| broken(message(&error)))
}
