//! What this crate asks of storage: a narrow trait, so that a store of ours and an object-store plugin serve alike.
//! Keys are relative to the location's prefix. A listing is complete or an error.

mod bounded;

use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use lifeboat_store::Store;
use url::Url;

pub use bounded::Bounded;
pub(crate) use bounded::PATIENCE;

/// Why storage did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("object '{key}' not found")]
    NotFound { key: String },
    #[error("object '{key}' has more than {limit} bytes")]
    TooLarge { key: String, limit: usize },
    #[error(transparent)]
    Store(lifeboat_store::Error),
    /// What a plugin said.
    #[error("the object store plugin '{plugin}' failed: {message}")]
    Plugin { plugin: String, message: String },
    /// Neither an answer nor an error came.
    #[error("storage did not answer within {minutes} minutes (it was asked to {action})")]
    Silent { action: &'static str, minutes: u64 },
    /// The bytes to be written could not be made.
    #[error("{0}")]
    Source(String),
}

impl StoreError {
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// A bounded word for events, metrics and condition reasons.
    pub fn category(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "not_found",
            Self::TooLarge { .. } => "too_large",
            Self::Store(error) => error.category(),
            Self::Plugin { .. } => "plugin",
            Self::Silent { .. } => "timeout",
            Self::Source(_) => "source",
        }
    }

    /// What a person can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Store(error) => Some(error.hint()),
            _ => None,
        }
    }

    /// Whether the same call may succeed later without anyone changing a setting.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Store(error) => error.retry() != lifeboat_store::Retry::Never,
            Self::Plugin { .. } | Self::Silent { .. } => true,
            Self::NotFound { .. } | Self::TooLarge { .. } | Self::Source(_) => false,
        }
    }
}

impl From<lifeboat_store::Error> for StoreError {
    fn from(error: lifeboat_store::Error) -> Self {
        match error {
            lifeboat_store::Error::NotFound { key } => Self::NotFound { key },
            other => Self::Store(other),
        }
    }
}

/// The bytes of an object, in pieces.
pub type ByteStream = BoxStream<'static, Result<Bytes, StoreError>>;

/// An object being read.
pub struct ObjectReading {
    /// How long it is, where the store says so.
    pub size: Option<u64>,
    pub body: ByteStream,
}

/// Object storage below one location's prefix.
#[async_trait]
pub trait ObjectStore: Send + Sync {
    /// Writes an object, replacing what is there.
    async fn put(&self, key: &str, body: Bytes) -> Result<(), StoreError>;
    /// Writes a stream as one object and returns its size. Nothing is visible until all of it is there; an error of the
    /// stream, or dropping the call, leaves nothing behind.
    async fn put_stream(&self, key: &str, body: ByteStream) -> Result<u64, StoreError>;
    /// Reads an object as a stream that fails if it ends early.
    async fn get_stream(&self, key: &str) -> Result<ObjectReading, StoreError>;
    async fn exists(&self, key: &str) -> Result<bool, StoreError>;
    /// The names right below `prefix` (empty, or ending in `/`) that have something below them; without slashes.
    async fn directories(&self, prefix: &str) -> Result<Vec<String>, StoreError>;
    /// All keys that start with `prefix`.
    async fn keys(&self, prefix: &str) -> Result<Vec<String>, StoreError>;
    /// Deletes objects; one that is not there is no error.
    async fn delete(&self, keys: &[String]) -> Result<(), StoreError>;
    /// A URL that lets its holder GET the object for `ttl`.
    async fn signed_url(&self, key: &str, ttl: Duration) -> Result<Url, StoreError>;
    /// Aborts uploads of keys that start with `prefix` and were begun and never ended, and says how many there were.
    /// Whoever calls it knows that no one is writing there. Some servers (MinIO) show an upload only to those who ask
    /// for its whole key, so ask for the key where it is known. Stores that drop such uploads have nothing to do.
    async fn abort_uploads(&self, prefix: &str) -> Result<u64, StoreError>;

    /// Reads an object of at most `limit` bytes into memory.
    async fn get(&self, key: &str, limit: usize) -> Result<Bytes, StoreError> {
        let too_large = || StoreError::TooLarge { key: key.to_owned(), limit };
        let mut reading = self.get_stream(key).await?;
        if reading.size.is_some_and(|size| size > limit as u64) {
            return Err(too_large());
        }
        let mut all = BytesMut::new();
        while let Some(chunk) = reading.body.try_next().await? {
            if all.len() + chunk.len() > limit {
                return Err(too_large());
            }
            all.extend_from_slice(&chunk);
        }
        Ok(all.freeze())
    }
}

#[async_trait]
impl ObjectStore for Store {
    async fn put(&self, key: &str, body: Bytes) -> Result<(), StoreError> {
        Ok(Store::put(self, key, body).await?)
    }

    async fn put_stream(&self, key: &str, body: ByteStream) -> Result<u64, StoreError> {
        Ok(Store::put_stream(self, key, body).await?)
    }

    async fn get_stream(&self, key: &str) -> Result<ObjectReading, StoreError> {
        let reading = Store::get_stream(self, key).await?;
        let size = reading.range.end - reading.range.start;
        Ok(ObjectReading { size: Some(size), body: reading.body.map_err(StoreError::from).boxed() })
    }

    async fn exists(&self, key: &str) -> Result<bool, StoreError> {
        Ok(Store::exists(self, key).await?)
    }

    async fn directories(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let level = self.list_directory(prefix).await?;
        let name = |full: &String| full.strip_prefix(prefix).unwrap_or(full).trim_end_matches('/').to_owned();
        Ok(level.prefixes.iter().map(name).filter(|name| !name.is_empty()).collect())
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        Ok(self.list(prefix).map_ok(|info| info.key).try_collect().await?)
    }

    async fn delete(&self, keys: &[String]) -> Result<(), StoreError> {
        Ok(self.delete_many(keys).await?)
    }

    async fn signed_url(&self, key: &str, ttl: Duration) -> Result<Url, StoreError> {
        Ok(Store::signed_url(self, key, ttl).await?)
    }

    async fn abort_uploads(&self, prefix: &str) -> Result<u64, StoreError> {
        Ok(Store::abort_uploads(self, prefix).await?)
    }
}
