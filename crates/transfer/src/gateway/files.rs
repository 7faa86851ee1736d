//! The files of an open repository, as the gateway serves them. Clients do not see responses of the storage: they get
//! a word from a fixed list, and the server's log has the details.

use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, future};
use lifeboat_repository::files::FileKind;
use lifeboat_repository::id::Id;
use lifeboat_repository::lock::LockFile;
use lifeboat_repository::repository::Repository;
use lifeboat_store::{Error, ReadOptions, Retry};
use lifeboat_web::gateway::{
    FileContent, FileList, FileName, FileType, FilesError, ListedFile, LockFacts, RepositoryFiles,
};

/// The files of a repository.
pub struct StoredFiles {
    repository: Repository,
}

impl StoredFiles {
    pub fn new(repository: Repository) -> Self {
        Self { repository }
    }

    fn failure(&self, action: &'static str, name: &str) -> impl Fn(Error) -> FilesError + Send + use<> {
        let (name, location) = (name.to_owned(), self.repository.store().name().to_owned());
        move |error| failure(&error, action, &name, &location)
    }
}

fn failure(error: &Error, action: &str, name: &str, location: &str) -> FilesError {
    let reason = error.category();
    let known = match error {
        Error::NotFound { .. } => FilesError::NotFound,
        Error::AlreadyExists { .. } => FilesError::Exists,
        Error::Range { size, .. } => FilesError::Range { size: *size },
        Error::Deadline { .. } => FilesError::Busy { reason },
        error if error.retry() == Retry::Now => FilesError::Busy { reason },
        _ => FilesError::Failed { reason },
    };
    if matches!(known, FilesError::Busy { .. } | FilesError::Failed { .. }) {
        let error = error as &dyn std::error::Error;
        tracing::warn!(location, file = name, error, "the gateway cannot {action} a file of a repository");
    }
    known
}

fn kind(file_type: FileType) -> FileKind {
    match file_type {
        FileType::Data => FileKind::Pack,
        FileType::Index => FileKind::Index,
        FileType::Key => FileKind::Key,
        FileType::Lock => FileKind::Lock,
        FileType::Snapshot => FileKind::Snapshot,
    }
}

/// The key of a file in the store.
fn key(name: &FileName) -> Result<String, FilesError> {
    match name {
        FileName::Config => Ok("config".to_owned()),
        FileName::Of(file_type, id) => {
            let id: Id = id.parse().map_err(|_| FilesError::NotFound)?;
            Ok(kind(*file_type).key(id))
        }
    }
}

#[async_trait]
impl RepositoryFiles for StoredFiles {
    async fn list(&self, file_type: FileType) -> Result<FileList, FilesError> {
        let kind = kind(file_type);
        let directory = format!("{}/", kind.directory());
        let failed = self.failure("list", &directory);
        let listing = self.repository.store().list(&directory).map_err(failed);
        // Whatever else is in the directory is not a file of the repository.
        let files = listing.try_filter_map(move |info| {
            let name = info.key.rsplit('/').next().unwrap_or_default();
            let id = name.parse::<Id>().ok().filter(|id| kind.key(*id) == info.key);
            future::ready(Ok(id.map(|id| ListedFile { id: id.to_string(), size: info.size })))
        });
        Ok(files.boxed())
    }

    async fn size(&self, name: &FileName) -> Result<u64, FilesError> {
        let key = key(name)?;
        let found = self.repository.store().head(&key).await;
        found.map(|info| info.size).map_err(self.failure("look up", &key))
    }

    async fn read(&self, name: &FileName, range: Option<Range<u64>>) -> Result<FileContent, FilesError> {
        let key = key(name)?;
        let reading = self.repository.store().read(&key, ReadOptions { range, pin: None }).await;
        let reading = reading.map_err(self.failure("read", &key))?;
        let body = reading.body.map_err(self.failure("read", &key));
        Ok(FileContent { size: reading.info.size, body: body.boxed() })
    }

    async fn create(&self, name: &FileName, content: Bytes) -> Result<(), FilesError> {
        let key = key(name)?;
        let made = self.repository.store().create(&key, content).await;
        made.map_err(self.failure("write", &key))
    }

    async fn delete(&self, name: &FileName) -> Result<(), FilesError> {
        let key = key(name)?;
        let deleted = self.repository.store().delete(&key).await;
        deleted.map_err(self.failure("delete", &key))
    }

    fn lock(&self, content: &[u8]) -> Option<LockFacts> {
        let lock = LockFile::read(&self.repository, content).ok()?;
        Some(LockFacts { user: lock.username.clone(), exclusive: lock.exclusive, time: lock.time() })
    }
}
