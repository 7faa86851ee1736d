//! A directory as a bucket: for a disk or NFS mount, and for repositories on a person's own machine. Writes are
//! atomic and durable: a hidden file beside the target, flushed, then renamed (or hard-linked, which is how
//! create-only is decided), then the directory flushed. The directory itself is never created: a missing mount
//! must not silently become a directory on the root disk.

mod files;
mod walk;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use url::Url;

use crate::backend::{
    Backend, ObjectInfo, Page, PageRequest, Part, PartId, PutMode, ReadOptions, Reading, UploadId,
};
use crate::error::{Error, Result};
use crate::key::Key;

const CHUNK: usize = 256 * 1024;

/// A bucket that is a directory.
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

    fn check_root(&self) -> Result<()> {
        if self.root.is_dir() {
            return Ok(());
        }
        let path = self.root.display().to_string();
        Err(Error::BucketNotFound { bucket: path.clone(), endpoint: format!("file://{path}") })
    }

    /// The file of a key. `Key` has no `..` and no absolute paths; names of our unfinished files are refused.
    fn path(&self, key: &Key) -> Result<PathBuf> {
        if key.as_str().split('/').any(files::is_unfinished) {
            let problem = "names that start with '.lifeboat-tmp-' are kept for unfinished files";
            return Err(Error::InvalidKey { key: key.to_string(), problem });
        }
        Ok(self.root.join(key.as_str()))
    }

    /// Runs `work` on a thread that may block.
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

#[async_trait]
impl Backend for Local {
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
        let (info, range, file, path) = self
            .blocking(move |local| {
                let path = local.path(&name)?;
                let opened = std::fs::File::open(&path).and_then(|file| Ok((file.metadata()?, file)));
                let (metadata, file) = opened.map_err(|error| local.read_error(&name, &path, error))?;
                if !metadata.is_file() {
                    return Err(Error::NotFound { key: name.to_string() });
                }
                let info = files::info(name.as_str(), &metadata);
                if options.pin.is_some() && options.pin != info.etag {
                    return Err(Error::Changed { key: name.to_string() });
                }
                let range = super::within(&name, info.size, options.range)?;
                Ok((info, range, file, path))
            })
            .await?;
        let mut file = tokio::fs::File::from_std(file);
        file.seek(std::io::SeekFrom::Start(range.start)).await.map_err(|e| files::disk("read", &path, e))?;
        let state = (file.take(range.end - range.start), path);
        let body = stream::try_unfold(state, |(mut file, path)| async move {
            let mut chunk = BytesMut::with_capacity(CHUNK);
            match file.read_buf(&mut chunk).await {
                Ok(0) => Ok(None),
                Ok(_) => Ok(Some((chunk.freeze(), (file, path)))),
                Err(error) => Err(files::disk("read", &path, error)),
            }
        });
        Ok(Reading { info, range, body: body.boxed() })
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
}
