//! A directory as a bucket: for a disk or NFS mount, and for repositories on the user's own machine. Writes are
//! atomic and durable: the content goes to a hidden file beside the target, which is flushed and then renamed (or
//! hard-linked for a create-only write, which fails if the target exists), then the directory is flushed. That is two
//! flushes per object, and one more for the first object of a new directory. Opening never creates the directory: if
//! a mount is missing, no directory must appear in its place on the root disk. A writer that was killed leaves its
//! hidden file behind; listings skip it and `remove_unfinished` removes it.

mod files;
mod walk;

pub use files::abandon_unfinished;

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use url::Url;

use crate::backend::{
    Backend, ObjectInfo, Page, PageRequest, Part, PartId, PutMode, ReadOptions, Reading, UploadId,
};
use crate::error::{Error, Result};
use crate::key::Key;

/// Up to this size, a range is read at once; larger ones are streamed in pieces of `CHUNK`.
const AT_ONCE: u64 = 4 * 1024 * 1024;
const CHUNK: u64 = 1024 * 1024;

/// A directory used as a bucket.
#[derive(Debug, Clone)]
pub struct Local {
    root: Arc<PathBuf>,
}

impl Local {
    /// `root` must exist.
    pub fn new(root: impl Into<PathBuf>) -> Result<Self> {
        let local = Self { root: Arc::new(root.into()) };
        local.check_root()?;
        Ok(local)
    }

    /// Creates the directory with its parents, accessible only to its owner, and opens it; an existing one is not
    /// changed. Only for `init`: opening must never create the directory, or a missing mount would be replaced by a
    /// directory on the root disk.
    pub fn create(root: impl Into<PathBuf>) -> Result<Self> {
        let root = root.into();
        files::create_root(&root)?;
        Self::new(root)
    }

    fn check_root(&self) -> Result<()> {
        match std::fs::metadata(&*self.root) {
            Ok(metadata) if metadata.is_dir() => Ok(()),
            Ok(_) => Err(files::disk("open", &self.root, std::io::ErrorKind::NotADirectory.into())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let path = self.root.display().to_string();
                Err(Error::BucketNotFound { bucket: path.clone(), endpoint: format!("file://{path}") })
            }
            // A directory that may not be read is not reported as missing.
            Err(error) => Err(files::disk("open", &self.root, error)),
        }
    }

    /// The file of a key. A `Key` contains no `..` and no absolute path; the names of our unfinished files are
    /// refused.
    fn path(&self, key: &Key) -> Result<PathBuf> {
        if key.as_str().split('/').any(files::is_unfinished) {
            let problem = "names that start with '.lifeboat-tmp-' are reserved for unfinished files";
            return Err(Error::InvalidKey { key: key.to_string(), problem });
        }
        Ok(self.root.join(key.as_str()))
    }

    /// Runs `work` on a blocking thread.
    async fn blocking<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Self) -> Result<T> + Send + 'static,
    {
        let this = self.clone();
        tokio::task::spawn_blocking(move || work(&this)).await.unwrap_or_else(|error| {
            Err(Error::Other { action: "file access".into(), detail: error.to_string() })
        })
    }

    /// Opens an object and, unless it is large, reads the range in the same call on the blocking thread.
    fn open_range(&self, key: &Key, options: ReadOptions) -> Result<Opened> {
        let path = self.path(key)?;
        let opened = File::open(&path).and_then(|file| Ok((file.metadata()?, file)));
        let (metadata, file) = opened.map_err(|error| self.read_error(key, &path, error))?;
        if !metadata.is_file() {
            return Err(Error::NotFound { key: key.to_string() });
        }
        let info = files::info(key.as_str(), &metadata);
        if options.pin.is_some() && options.pin != info.etag {
            return Err(Error::Changed { key: key.to_string() });
        }
        let range = super::within(key, info.size, options.range)?;
        let content = if range.end - range.start <= AT_ONCE {
            Content::Whole(files::read(&file, &range).map_err(|error| files::disk("read", &path, error))?)
        } else {
            Content::Pieces(file)
        };
        Ok(Opened { info, range, path, content })
    }

    fn info(&self, key: &Key) -> Result<ObjectInfo> {
        let path = self.path(key)?;
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => Ok(files::info(key.as_str(), &metadata)),
            Ok(_) => Err(Error::NotFound { key: key.to_string() }),
            Err(error) => Err(self.read_error(key, &path, error)),
        }
    }

    fn read_error(&self, key: &Key, path: &Path, source: std::io::Error) -> Error {
        use std::io::ErrorKind::{NotADirectory, NotFound};
        match source.kind() {
            NotFound | NotADirectory => match self.check_root() {
                Ok(()) => Error::NotFound { key: key.to_string() },
                Err(missing) => missing,
            },
            _ => files::disk("read", path, source),
        }
    }

    fn unfinished(&self, key: &Key, upload: &UploadId) -> Result<PathBuf> {
        let target = self.path(key)?;
        if !files::is_unfinished(&upload.0) || upload.0.contains('/') {
            return Err(Error::Other { action: format!("upload '{key}'"), detail: "no such upload".into() });
        }
        Ok(target.with_file_name(&upload.0))
    }
}

/// An object opened for reading.
struct Opened {
    info: ObjectInfo,
    range: Range<u64>,
    path: PathBuf,
    content: Content,
}

enum Content {
    Whole(Bytes),
    Pieces(File),
}

/// Streams a large range in pieces. If the file becomes shorter meanwhile, the stream ends early, which `Store`
/// detects.
fn pieces(file: Arc<File>, path: PathBuf, range: Range<u64>) -> impl Stream<Item = Result<Bytes>> + Send {
    stream::try_unfold((file, path, range), |(file, path, range)| async move {
        if range.is_empty() {
            return Ok(None);
        }
        let piece = range.start..range.end.min(range.start + CHUNK);
        let (reader, wanted) = (Arc::clone(&file), piece.clone());
        let read = tokio::task::spawn_blocking(move || files::read(&reader, &wanted)).await;
        let bytes = read.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        let bytes = bytes.map_err(|error| files::disk("read", &path, error))?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let next = range.start + bytes.len() as u64..range.end;
        Ok(Some((bytes, (file, path, next))))
    })
}

#[async_trait]
impl Backend for Local {
    fn is_local(&self) -> bool {
        true
    }

    async fn put(&self, key: &Key, body: Bytes, mode: PutMode) -> Result<()> {
        let key = key.clone();
        self.blocking(move |local| {
            local.check_root()?;
            files::write(&local.root, &local.path(&key)?, &body, mode, &key)
        })
        .await
    }

    async fn get(&self, key: &Key, options: &ReadOptions) -> Result<Reading> {
        let (name, options) = (key.clone(), options.clone());
        let opened = self.blocking(move |local| local.open_range(&name, options)).await?;
        let (info, range) = (opened.info.clone(), opened.range.clone());
        let body = match opened.content {
            Content::Whole(bytes) => stream::once(async { Ok(bytes) }).boxed(),
            Content::Pieces(file) => pieces(Arc::new(file), opened.path, range.clone()).boxed(),
        };
        Ok(Reading { info, range, body })
    }

    async fn head(&self, key: &Key) -> Result<ObjectInfo> {
        let key = key.clone();
        self.blocking(move |local| local.info(&key)).await
    }

    async fn list_page(&self, request: &PageRequest) -> Result<Page> {
        let request = request.clone();
        self.blocking(move |local| {
            local.check_root()?;
            walk::page(&local.root, &request)
        })
        .await
    }

    async fn delete(&self, keys: &[Key]) -> Result<()> {
        let keys = keys.to_vec();
        self.blocking(move |local| {
            local.check_root()?;
            keys.iter().try_for_each(|key| files::remove(&local.root, &local.path(key)?))
        })
        .await
    }

    async fn begin_upload(&self, key: &Key) -> Result<UploadId> {
        let key = key.clone();
        self.blocking(move |local| {
            local.check_root()?;
            let (_, path) = files::create_beside(&local.root, &local.path(&key)?)?;
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Ok(UploadId(name))
        })
        .await
    }

    async fn upload_part(&self, key: &Key, upload: &UploadId, part: &Part) -> Result<PartId> {
        let (key, upload, part) = (key.clone(), upload.clone(), part.clone());
        self.blocking(move |local| {
            use std::os::unix::fs::FileExt;
            let path = local.unfinished(&key, &upload)?;
            std::fs::OpenOptions::new()
                .write(true)
                .open(&path)
                .and_then(|file| file.write_all_at(&part.body, part.offset))
                .map_err(|error| files::disk("write", &path, error))?;
            Ok(PartId(part.number.to_string()))
        })
        .await
    }

    async fn complete_upload(&self, key: &Key, upload: &UploadId, _parts: &[PartId]) -> Result<()> {
        let (key, upload) = (key.clone(), upload.clone());
        self.blocking(move |local| {
            let path = local.unfinished(&key, &upload)?;
            let file = std::fs::OpenOptions::new().write(true).open(&path);
            let file = file.map_err(|error| files::disk("write", &path, error))?;
            files::publish(&file, &path, &local.path(&key)?, PutMode::Overwrite, &key)
        })
        .await
    }

    async fn abort_upload(&self, key: &Key, upload: &UploadId) -> Result<()> {
        let (key, upload) = (key.clone(), upload.clone());
        self.blocking(move |local| files::remove(&local.root, &local.unfinished(&key, &upload)?)).await
    }

    async fn signed_url(&self, _key: &Key, _ttl: Duration) -> Result<Url> {
        Err(Error::Unsupported {
            operation: "signing a URL",
            reason: "the objects are files in a directory".into(),
        })
    }

    async fn remove_unfinished(&self, prefix: &str, age: Duration) -> Result<u64> {
        let prefix = prefix.trim_end_matches('/').to_owned();
        self.blocking(move |local| {
            local.check_root()?;
            walk::remove_unfinished(&local.root, &local.root.join(prefix), age)
        })
        .await
    }
}
