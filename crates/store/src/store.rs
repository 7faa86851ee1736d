//! `Store`: what the rest of Lifeboat uses. It knows the location's prefix (keys outside are relative to it),
//! puts the layers around a backend, and builds whole listings and streamed uploads from single requests.

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
use crate::layers::retry::{Retry, RetryPolicy};

pub use list::Directory;

/// As much memory as is taken on the word of a server.
const LARGEST_AT_ONCE: usize = 128 * 1024 * 1024;

/// How a store is used: patience, concurrency, sizes. The defaults suit a server.
#[derive(Debug, Clone)]
pub struct Tuning {
    pub retry: RetryPolicy,
    /// Requests in flight at once.
    pub concurrency: usize,
    /// Size of the parts of a streamed upload; memory is this times `upload_concurrency`. S3 wants at least
    /// 5 MiB and takes at most 10,000 parts, so the parts of very large objects grow.
    pub part_size: usize,
    /// Parts of one streamed upload in flight at once.
    pub upload_concurrency: usize,
    /// Makes the jitter of pauses reproducible in tests.
    pub seed: u64,
    /// Bytes in a second, each way; shared by all stores that were given clones of it.
    pub bandwidth: Bandwidth,
    pub observer: Option<Arc<dyn Observer>>,
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
    /// Puts the layers around `backend`. `prefix` may carry slashes at its ends, as Velero's does.
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

    /// The same store below a further prefix.
    pub fn below(&self, prefix: &str) -> Result<Self> {
        let prefix = format!("{}{}/", self.prefix, Key::new(prefix.trim_matches('/'))?);
        Ok(Self { prefix: prefix.into(), ..self.clone() })
    }

    /// The same store with other patience.
    #[must_use]
    pub fn with_retry(&self, retry: RetryPolicy) -> Self {
        let tuning = Tuning { retry, ..(*self.tuning).clone() };
        Self { backend: layered(Arc::clone(&self.bare), &tuning), tuning: Arc::new(tuning), ..self.clone() }
    }

    pub(crate) fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings.into();
        self
    }

    /// The same store under the name that people know it by: the location as they wrote it, without secrets.
    #[must_use]
    pub fn with_name(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// What to call this place in messages: the name it was given, else its prefix.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is allowed but should be seen by whoever looks at the location, such as unverified certificates.
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

    /// Writes an object, replacing what is there.
    pub async fn put(&self, key: &str, body: impl Into<Bytes>) -> Result<()> {
        let key = self.key(key)?;
        self.relative(self.backend.put(&key, body.into(), PutMode::Overwrite).await)
    }

    /// Reads a whole object into memory.
    pub async fn get(&self, key: &str) -> Result<Bytes> {
        self.collect(self.read(key, ReadOptions::default()).await?).await
    }

    /// Reads the bytes `range` of an object; a range that is not within it is an error.
    pub async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        self.collect(self.read(key, ReadOptions { range: Some(range), pin: None }).await?).await
    }

    /// Reads an object as a stream. A break is read on from where it happened; the stream fails if the bytes do
    /// not come to what was promised.
    pub async fn get_stream(&self, key: &str) -> Result<Reading> {
        self.read(key, ReadOptions::default()).await
    }

    /// Like `get_stream`, with a range or pinned to a version.
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

    /// Deletes an object; that it is not there is no error.
    pub async fn delete(&self, key: &str) -> Result<()> {
        let key = self.key(key)?;
        self.relative(self.backend.delete(&[key]).await)
    }

    /// Deletes many objects, a thousand in a request where the store can. Stops at the first failing request.
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

    /// Removes what writers that died left unfinished (hidden files of a directory; no listing shows them), if
    /// nothing touched it for `age`. Returns how many there were. A writer whose file goes gets an error, so an
    /// `age` that is too short costs a repetition, never data; a day is plenty.
    pub async fn remove_unfinished(&self, age: Duration) -> Result<u64> {
        self.relative(self.backend.remove_unfinished(&self.prefix, age).await)
    }

    /// Aborts multipart uploads of keys that start with `prefix`, and returns how many there were. A writer whose
    /// upload goes gets an error; whoever calls this knows that there is none.
    pub async fn abort_uploads(&self, prefix: &str) -> Result<u64> {
        let prefix = format!("{}{prefix}", self.prefix);
        let open = self.relative(self.backend.open_uploads(&prefix).await)?;
        for (key, upload) in &open {
            self.relative(self.backend.abort_upload(key, upload).await)?;
        }
        Ok(open.len() as u64)
    }

    fn key(&self, key: &str) -> Result<Key> {
        // Checked alone first, so that the message shows what the caller wrote.
        let key = Key::new(key)?;
        if self.prefix.is_empty() { Ok(key) } else { Key::new(format!("{}{key}", self.prefix)) }
    }

    /// Takes the location's prefix off the key of an error.
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
                detail: format!("it holds '{}', which was not asked for", info.key),
            }),
        }
    }

    async fn collect(&self, reading: Reading) -> Result<Bytes> {
        let size = usize::try_from(reading.range.end - reading.range.start).unwrap_or(0);
        let mut chunks = reading.body;
        let Some(first) = chunks.try_next().await? else {
            return Ok(Bytes::new());
        };
        if first.len() == size {
            // Most objects come in one piece; the stream's end still has to be seen.
            return chunks.try_next().await.map(|_| first);
        }
        // The size is the server's word, so it is believed up to what the largest pack of a repository has.
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
    Arc::new(Layered::new(Retry::new(tuning.retry.clone(), tuning.seed), limited))
}

/// Fails a body that ends early or goes on too long, whatever the backend thinks of it.
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
                let detail = format!("{seen} bytes came, {expected} were promised");
                return Err(Error::Interrupted { action, detail });
            }
            Ok(chunk.map(|chunk| (chunk, (body, seen))))
        }
    });
    Reading { body: body.boxed(), ..reading }
}
