//! `Store`: object storage as the other crates use it. It adds the location's prefix (callers' keys are relative to
//! it), puts the layers around a backend, and builds complete listings and streamed uploads from single requests.

mod create;
mod list;
mod upload;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;
use url::Url;

use crate::backend::{Backend, MAX_DELETE, ObjectInfo, PutMode, ReadOptions, Reading};
use crate::backends::local::Local;
use crate::backends::memory::Memory;
use crate::error::{Error, Result};
use crate::key::Key;
use crate::layers::Layered;
use crate::layers::bandwidth::{Bandwidth, Pace};
use crate::layers::limit::Limit;
use crate::layers::observe::{Observe, Observer};
use crate::layers::outage::Outage;
use crate::layers::retry::{Retry, RetryPolicy};

pub use list::Directory;

/// The most memory that is allocated because of a size that a server reports.
const LARGEST_AT_ONCE: usize = 128 * 1024 * 1024;

/// How a store is used: retries, concurrency, sizes. The defaults suit the server.
#[derive(Debug, Clone)]
pub struct Tuning {
    pub retry: RetryPolicy,
    /// Requests in flight at once.
    pub concurrency: usize,
    /// Size of the parts of a streamed upload; the memory needed is this times `upload_concurrency`. S3 requires at
    /// least 5 MiB and accepts at most 10,000 parts, so the parts of very large objects grow.
    pub part_size: usize,
    /// Parts of one streamed upload in flight at once.
    pub upload_concurrency: usize,
    /// Makes the jitter of pauses reproducible in tests.
    pub seed: u64,
    /// Bytes per second in each direction, shared by all stores that were given clones of it.
    pub bandwidth: Bandwidth,
    pub observer: Option<Arc<dyn Observer>>,
    /// The most bytes of an object that is read into memory as a whole. Storage of a tenant may announce any size.
    pub largest_read: u64,
    /// Shows whether storage is away.
    pub outage: Outage,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            retry: RetryPolicy::default(),
            concurrency: 32,
            part_size: 16 * 1024 * 1024,
            upload_concurrency: 4,
            seed: u64::from(std::process::id()),
            bandwidth: Bandwidth::default(),
            observer: None,
            largest_read: u64::MAX,
            outage: Outage::default(),
        }
    }
}

/// Object storage below one prefix of one bucket. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    bare: Arc<dyn Backend>,
    backend: Arc<dyn Backend>,
    /// Empty, or ending in `/`.
    prefix: Arc<str>,
    tuning: Arc<Tuning>,
    warnings: Arc<[String]>,
    name: Arc<str>,
}

impl Store {
    /// Puts the layers around `backend`. `prefix` may start and end with slashes, as Velero's does.
    pub fn new(backend: Arc<dyn Backend>, prefix: &str, tuning: Tuning) -> Result<Self> {
        let prefix = match prefix.trim_matches('/') {
            "" => String::new(),
            prefix => format!("{}/", Key::new(prefix)?),
        };
        Ok(Self::assembled(backend, prefix.into(), tuning))
    }

    fn assembled(bare: Arc<dyn Backend>, prefix: Arc<str>, tuning: Tuning) -> Self {
        let backend = layered(Arc::clone(&bare), &tuning);
        let name = Arc::clone(&prefix);
        Self { bare, backend, prefix, tuning: Arc::new(tuning), warnings: Arc::new([]), name }
    }

    /// A store in memory, for tests.
    pub fn memory() -> Self {
        Self::assembled(Arc::new(Memory::new()), "".into(), Tuning::default())
    }

    /// A store in an existing directory.
    pub fn local(directory: impl Into<std::path::PathBuf>) -> Result<Self> {
        Self::new(Arc::new(Local::new(directory)?), "", Tuning::default())
    }

    /// This store with a longer prefix; with an empty one, this store.
    pub fn below(&self, prefix: &str) -> Result<Self> {
        let prefix = prefix.trim_matches('/');
        if prefix.is_empty() {
            return Ok(self.clone());
        }
        let prefix = format!("{}{}/", self.prefix, Key::new(prefix)?);
        Ok(Self { prefix: prefix.into(), ..self.clone() })
    }

    /// This store with another retry policy.
    #[must_use]
    pub fn with_retry(&self, retry: RetryPolicy) -> Self {
        let tuning = Tuning { retry, ..(*self.tuning).clone() };
        Self { backend: layered(Arc::clone(&self.bare), &tuning), tuning: Arc::new(tuning), ..self.clone() }
    }

    /// This store with another backend around its own and with other tuning: for tests with faults.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn wrapped(&self, tuning: Tuning, wrap: impl FnOnce(Arc<dyn Backend>) -> Arc<dyn Backend>) -> Self {
        let wrapped = Self::assembled(wrap(Arc::clone(&self.bare)), Arc::clone(&self.prefix), tuning);
        Self { warnings: Arc::clone(&self.warnings), name: Arc::clone(&self.name), ..wrapped }
    }

    pub(crate) fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings.into();
        self
    }

    /// This store with the name that users know it by: the location as they wrote it, without secrets.
    #[must_use]
    pub fn with_name(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// The name of this store in messages: from `with_name`, or else its prefix.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Settings that are allowed but risky, such as unverified certificates; shown in the location's status.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The size of the parts of a streamed upload.
    pub fn part_size(&self) -> usize {
        self.tuning.part_size
    }

    /// Whether objects are files of this machine.
    pub fn is_local(&self) -> bool {
        self.bare.is_local()
    }

    /// The prefix in the bucket, empty or ending in `/`.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Writes an object, replacing an existing one.
    pub async fn put(&self, key: &str, body: impl Into<Bytes>) -> Result<()> {
        let key = self.key(key)?;
        self.relative(self.backend.put(&key, body.into(), PutMode::Overwrite).await)
    }

    /// Reads a whole object into memory.
    pub async fn get(&self, key: &str) -> Result<Bytes> {
        self.collect(self.read(key, ReadOptions::default()).await?).await
    }

    /// Reads the bytes `range` of an object; fails if the range is outside of the object.
    pub async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        self.collect(self.read(key, ReadOptions { range: Some(range), pin: None }).await?).await
    }

    /// Reads an object as a stream. An interrupted read is resumed at the same offset; the stream fails if its length
    /// is not the announced one.
    pub async fn get_stream(&self, key: &str) -> Result<Reading> {
        self.read(key, ReadOptions::default()).await
    }

    /// Like `get_stream`, but for a range or pinned to one version.
    pub async fn read(&self, key: &str, options: ReadOptions) -> Result<Reading> {
        let key = self.key(key)?;
        let mut reading = self.relative(self.backend.get(&key, &options).await)?;
        reading.info = self.strip(reading.info)?;
        Ok(complete(reading))
    }

    pub async fn head(&self, key: &str) -> Result<ObjectInfo> {
        let key = self.key(key)?;
        self.strip(self.relative(self.backend.head(&key).await)?)
    }

    pub async fn exists(&self, key: &str) -> Result<bool> {
        match self.head(key).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Deletes an object. It is not an error if the object does not exist.
    pub async fn delete(&self, key: &str) -> Result<()> {
        let key = self.key(key)?;
        self.relative(self.backend.delete(&[key]).await)
    }

    /// Deletes many objects, a thousand per request where the store supports it. Stops at the first request that
    /// fails.
    pub async fn delete_many<I>(&self, keys: I) -> Result<()>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let keys: Vec<Key> = keys.into_iter().map(|key| self.key(key.as_ref())).collect::<Result<_>>()?;
        for batch in keys.chunks(MAX_DELETE) {
            self.relative(self.backend.delete(batch).await)?;
        }
        Ok(())
    }

    /// A URL that lets its holder GET the object for `ttl`, made for the public endpoint if one is configured.
    pub async fn signed_url(&self, key: &str, ttl: Duration) -> Result<Url> {
        let key = self.key(key)?;
        self.relative(self.backend.signed_url(&key, ttl).await)
    }

    /// Removes unfinished files that crashed writers left behind (hidden files of a directory, which no listing
    /// shows), if they were not modified for `age`. Returns their number. A writer whose file is removed gets an
    /// error, so an `age` that is too short costs a retry, never data; a day is plenty.
    pub async fn remove_unfinished(&self, age: Duration) -> Result<u64> {
        self.relative(self.backend.remove_unfinished(&self.prefix, age).await)
    }

    /// Aborts the multipart uploads of keys that start with `prefix` and returns their number. A writer whose upload
    /// is aborted gets an error; the caller makes sure that there is none.
    pub async fn abort_uploads(&self, prefix: &str) -> Result<u64> {
        let prefix = format!("{}{prefix}", self.prefix);
        let open = self.relative(self.backend.open_uploads(&prefix).await)?;
        for (key, upload) in &open {
            self.relative(self.backend.abort_upload(key, upload).await)?;
        }
        Ok(open.len() as u64)
    }

    fn key(&self, key: &str) -> Result<Key> {
        // Checked without the prefix first, so that the message quotes the key as the caller wrote it.
        let key = Key::new(key)?;
        if self.prefix.is_empty() { Ok(key) } else { Key::new(format!("{}{key}", self.prefix)) }
    }

    /// Removes the location's prefix from the key in an error.
    fn relative<T>(&self, result: Result<T>) -> Result<T> {
        let strip = |key: String| key.strip_prefix(&*self.prefix).map(str::to_owned).unwrap_or(key);
        result.map_err(|error| match error {
            Error::NotFound { key } => Error::NotFound { key: strip(key) },
            Error::AlreadyExists { key } => Error::AlreadyExists { key: strip(key) },
            Error::Changed { key } => Error::Changed { key: strip(key) },
            other => other,
        })
    }

    fn strip(&self, info: ObjectInfo) -> Result<ObjectInfo> {
        match info.key.strip_prefix(&*self.prefix) {
            Some(key) => Ok(ObjectInfo { key: key.to_owned(), ..info }),
            None => Err(Error::Listing {
                prefix: self.prefix.to_string(),
                detail: format!("it contains '{}', which is outside of the requested prefix", info.key),
            }),
        }
    }

    async fn collect(&self, reading: Reading) -> Result<Bytes> {
        let announced = reading.range.end - reading.range.start;
        let most = self.tuning.largest_read;
        if announced > most {
            let detail = format!("it has {announced} bytes, and at most {most} are read into memory");
            return Err(Error::Other { action: format!("read '{}'", reading.info.key), detail });
        }
        let size = usize::try_from(announced).unwrap_or(0);
        let mut chunks = reading.body;
        let Some(first) = chunks.try_next().await? else {
            return Ok(Bytes::new());
        };
        if first.len() == size {
            // Most objects arrive in one chunk; the end of the stream must still be checked.
            return chunks.try_next().await.map(|_| first);
        }
        // The size comes from the server, so no more is allocated up front than the largest pack of a repository
        // needs.
        let mut all = BytesMut::with_capacity(size.min(LARGEST_AT_ONCE));
        all.extend_from_slice(&first);
        while let Some(chunk) = chunks.try_next().await? {
            all.extend_from_slice(&chunk);
        }
        Ok(all.freeze())
    }
}

fn layered(backend: Arc<dyn Backend>, tuning: &Tuning) -> Arc<dyn Backend> {
    let observed = match &tuning.observer {
        Some(observer) => Arc::new(Layered::new(Observe(Arc::clone(observer)), backend)),
        None => backend,
    };
    let paced = if tuning.bandwidth.is_unlimited() {
        observed
    } else {
        Arc::new(Layered::new(Pace(tuning.bandwidth.clone()), observed))
    };
    let limited = Arc::new(Layered::new(Limit::new(tuning.concurrency), paced));
    let retry = Retry::new(tuning.retry.clone(), tuning.seed).shown_in(tuning.outage.clone());
    Arc::new(Layered::new(retry, limited))
}

/// Fails a body that is shorter or longer than announced, whatever the backend reports.
fn complete(reading: Reading) -> Reading {
    use futures::{StreamExt, stream};
    let key = reading.info.key.clone();
    let expected = reading.range.end - reading.range.start;
    let state = (reading.body, 0_u64);
    let body = stream::try_unfold(state, move |(mut body, seen)| {
        let action = format!("read '{key}'");
        async move {
            let chunk = body.try_next().await?;
            let seen = seen + chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
            if seen > expected || (chunk.is_none() && seen < expected) {
                let detail = format!("received {seen} bytes, expected {expected}");
                return Err(Error::Interrupted { action, detail });
            }
            Ok(chunk.map(|chunk| (chunk, (body, seen))))
        }
    });
    Reading { body: body.boxed(), ..reading }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_too_large_is_not_read_into_memory() {
        let tuning = Tuning { largest_read: 4, ..Tuning::default() };
        let store = Store::new(Arc::new(Memory::new()), "", tuning).unwrap();
        store.put("small", "1234").await.unwrap();
        store.put("large", "12345").await.unwrap();
        assert_eq!(store.get("small").await.unwrap(), "1234");
        let error = store.get("large").await.unwrap_err();
        assert!(error.to_string().contains("it has 5 bytes, and at most 4"), "{error}");
        assert_eq!(store.get_range("large", 1..5).await.unwrap(), "2345");
    }
}
