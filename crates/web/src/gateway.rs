//! The gateway: restic's REST protocol over TLS, for movers in tenants' namespaces whose repository has its keys in another
//! namespace. A mover authenticates with the token of its task; a [`Gatekeeper`] checks the token and opens the files of its
//! repository, this module decides what the token permits and moves the bytes. The design note is
//! docs/design/0008-gateway.md.
//!
//! Listings and files are sent as streams. A file that is added is first written to an unnamed temporary file; it is
//! written to storage only if its SHA-256 equals its name. The limits in `limits` bound the memory, whatever clients
//! do.

mod handler;
mod limits;
mod listing;
mod metrics;
mod path;
mod range;
mod refusal;
mod rules;
mod serve;
mod spool;
#[cfg(test)]
mod tests;
mod tls;
mod upload;

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use jiff::Timestamp;

pub use handler::Gateway;
pub use path::{FileName, FileType};
pub use serve::{GatewaySocket, serve_gateway};
pub use tls::{Authority, CertificateError, ServerTls, server_config};

/// What a token permits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The path of the repository in the URLs of its files, as in `stash/shop/backups`.
    pub repository: String,
    /// The task, for limits and logs.
    pub task: String,
    pub access: FileAccess,
    /// The user name in the locks of this task.
    pub lock_user: String,
}

/// What the holder of a token may do with the files of its repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileAccess {
    /// Read; add packs, index files, snapshots and locks; delete its own locks.
    Add,
    /// Read; add and delete its own locks.
    Read,
    /// The task has ended: delete its own locks.
    Ended,
}

/// Why a token permits nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoGrant {
    /// It is no token, or not one of this installation.
    #[error("the token is not valid")]
    Invalid,
    #[error("the token has expired")]
    Expired,
    /// The token cannot be checked now; the reason is for the log.
    #[error("the token cannot be checked")]
    Unavailable(String),
}

/// Checks tokens, and opens the repositories that they are for.
#[async_trait]
pub trait Gatekeeper: Send + Sync + 'static {
    async fn grant(&self, token: &str) -> Result<Grant, NoGrant>;
    async fn files(&self, grant: &Grant) -> Result<Arc<dyn RepositoryFiles>, FilesError>;
}

/// The files of one repository.
#[async_trait]
pub trait RepositoryFiles: Send + Sync {
    /// Every file of a type. The stream ends with an error unless the listing is complete.
    async fn list(&self, file_type: FileType) -> Result<FileList, FilesError>;
    async fn size(&self, name: &FileName) -> Result<u64, FilesError>;
    /// Reads a file or a range of it.
    async fn read(&self, name: &FileName, range: Option<Range<u64>>) -> Result<FileContent, FilesError>;
    /// Adds a file; fails with [`FilesError::Exists`] if there is one of this name.
    async fn create(&self, name: &FileName, content: Bytes) -> Result<(), FilesError>;
    async fn delete(&self, name: &FileName) -> Result<(), FilesError>;
    /// The content of a lock; None if it is not a lock of this repository.
    fn lock(&self, content: &[u8]) -> Option<LockFacts>;
}

/// The files of a listing.
pub type FileList = BoxStream<'static, Result<ListedFile, FilesError>>;

/// A file of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedFile {
    /// 64 hexadecimal digits.
    pub id: String,
    pub size: u64,
}

/// A file, or a range of it, that is being read.
pub struct FileContent {
    /// The size of the whole file.
    pub size: u64,
    pub body: BoxStream<'static, Result<Bytes, FilesError>>,
}

/// The fields of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockFacts {
    pub user: String,
    pub exclusive: bool,
    /// When it was created or renewed, by its holder's clock.
    pub time: Timestamp,
}

/// Why files cannot be listed, read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilesError {
    #[error("the file does not exist")]
    NotFound,
    #[error("the file exists; files are never replaced")]
    Exists,
    #[error("the range is outside of the file, which has {size} bytes")]
    Range { size: u64 },
    /// Storage is busy or away: trying again helps. `reason` is a word from a fixed list; the details are in the log.
    #[error("storage does not take the request now ({reason}); try again")]
    Busy { reason: &'static str },
    /// `reason` is as above.
    #[error("storage failed ({reason}); the log of the server says more")]
    Failed { reason: &'static str },
}
