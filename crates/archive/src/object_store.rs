//! The interface to storage that this crate needs: a narrow trait that our own stores and object-store plugins can
//! implement. Keys are relative to the location's prefix. A listing is complete or an error.

mod bounded;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use lifeboat_store::{Retry, Store};
use url::Url;

pub use bounded::Bounded;
use bounded::STORAGE_TIMEOUT;

/// The most memory that the keys of a listing may need, in bytes.
const LARGEST_LISTING: usize = 64 * 1024 * 1024;

/// An error of storage.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("object '{key}' not found")]
    NotFound { key: String },
    #[error("object '{key}' is larger than {limit} bytes")]
    TooLarge { key: String, limit: usize },
    #[error(transparent)]
    Store(lifeboat_store::Error),
    /// The error that a plugin returned.
    #[error("the object store plugin '{plugin}' failed: {message}")]
    Plugin { plugin: String, message: String },
    /// The call returned neither a result nor an error in time.
    #[error("storage did not respond within {minutes} minutes to the request to {action}")]
    TimedOut { action: &'static str, minutes: u64 },
    /// The bytes to be written could not be produced.
    #[error("{0}")]
    Source(String),
}

impl StoreError {
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// A name from a fixed list, for events, metrics and condition reasons.
    pub fn category(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "not_found",
            Self::TooLarge { .. } => "too_large",
            Self::Store(error) => error.category(),
            Self::Plugin { .. } => "plugin",
            Self::TimedOut { .. } => "timeout",
            Self::Source(_) => "source",
        }
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Store(error) => Some(error.hint()),
            _ => None,
        }
    }

    /// When the same call may succeed: never without a change of settings.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Store(error) => error.retry(),
            Self::Plugin { .. } | Self::TimedOut { .. } => Retry::Later,
            Self::NotFound { .. } | Self::TooLarge { .. } | Self::Source(_) => Retry::Never,
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

/// The bytes of an object, in chunks.
pub type ByteStream = BoxStream<'static, Result<Bytes, StoreError>>;

/// An object being read.
pub struct ObjectReading {
    /// The size, if the store reports it.
    pub size: Option<u64>,
    pub body: ByteStream,
}

/// Object storage below one location's prefix.
#[async_trait]
pub trait ObjectStore: Send + Sync {
    /// Writes an object, replacing an existing one.
    async fn put(&self, key: &str, body: Bytes) -> Result<(), StoreError>;
    /// Writes a stream as one object and returns its size. Nothing is visible until the upload is complete; if the
    /// stream fails or the call is dropped, nothing remains.
    async fn put_stream(&self, key: &str, body: ByteStream) -> Result<u64, StoreError>;
    /// Reads an object as a stream, which fails if it ends early.
    async fn get_stream(&self, key: &str) -> Result<ObjectReading, StoreError>;
    async fn exists(&self, key: &str) -> Result<bool, StoreError>;
    /// The names directly below `prefix` (empty, or ending in `/`) that have keys below them; without slashes.
    async fn directories(&self, prefix: &str) -> Result<Vec<String>, StoreError>;
    /// All keys that start with `prefix`.
    async fn keys(&self, prefix: &str) -> Result<Vec<String>, StoreError>;
    /// A number that changes when a file below `prefix` (ending in `/`) is added, removed or written again. Stores whose
    /// listings have only names do not notice that a file is written again. Only the first thousand files count.
    async fn fingerprint(&self, prefix: &str) -> Result<u64, StoreError> {
        let mut keys = self.keys(prefix).await?;
        keys.sort_unstable();
        keys.truncate(FINGERPRINTED);
        Ok(hashed(&keys))
    }
    /// Deletes objects. It is not an error if one does not exist.
    async fn delete(&self, keys: &[String]) -> Result<(), StoreError>;
    /// A URL that lets its holder GET the object for `ttl`.
    async fn signed_url(&self, key: &str, ttl: Duration) -> Result<Url, StoreError>;
    /// Aborts unfinished uploads of keys that start with `prefix` and returns their number. The caller makes sure
    /// that no writer is active there. Some servers (MinIO) only list an upload when they are asked for its complete
    /// key, so pass the key where it is known. Stores that drop such uploads themselves have nothing to do.
    async fn abort_uploads(&self, prefix: &str) -> Result<u64, StoreError>;

    /// How long a stream may be stalled because storage takes no data.
    fn stall_limit(&self) -> Duration {
        STORAGE_TIMEOUT
    }

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

/// How many files of a directory a fingerprint covers: one page of a listing.
const FINGERPRINTED: usize = 1000;

fn hashed(listing: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    listing.hash(&mut hasher);
    hasher.finish()
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
        let (mut keys, mut size, mut listed) = (Vec::new(), 0, self.list(prefix));
        while let Some(info) = listed.try_next().await? {
            size += info.key.len() + size_of::<String>();
            if size > LARGEST_LISTING {
                return Err(StoreError::Source(format!("there are too many files below '{prefix}'")));
            }
            keys.push(info.key);
        }
        Ok(keys)
    }

    async fn fingerprint(&self, prefix: &str) -> Result<u64, StoreError> {
        let listed = self.list(prefix).take(FINGERPRINTED);
        let states: Vec<_> = listed
            .map_ok(|info| (info.key, info.size, info.is_dated.then_some(info.modified), info.etag))
            .try_collect()
            .await?;
        Ok(hashed(&states))
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
