//! Objects in memory: for tests, and as the reference implementation for the conformance suite.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use url::Url;

use super::paging::Pager;
use crate::backend::{
    Backend, ObjectInfo, Page, PageRequest, Part, PartId, PutMode, ReadOptions, Reading, UploadId,
};
use crate::error::{Error, Result};
use crate::key::Key;

#[derive(Debug, Clone)]
struct Object {
    body: Bytes,
    version: u64,
    modified: jiff::Timestamp,
}

impl Object {
    fn info(&self, key: &str) -> ObjectInfo {
        ObjectInfo {
            key: key.to_owned(),
            size: self.body.len() as u64,
            modified: self.modified,
            is_dated: true,
            etag: Some(self.version.to_string()),
        }
    }
}

/// A bucket in memory.
#[derive(Debug, Default)]
pub struct Memory {
    objects: Mutex<BTreeMap<String, Object>>,
    uploads: Mutex<BTreeMap<String, BTreeMap<usize, Bytes>>>,
    counter: AtomicU64,
}

impl Memory {
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of uploads that were neither completed nor aborted.
    pub fn open_uploads(&self) -> usize {
        locked(&self.uploads).len()
    }

    fn count(&self) -> u64 {
        self.counter.fetch_add(1, Ordering::Relaxed)
    }

    fn insert(&self, key: &Key, body: Bytes, mode: PutMode) -> Result<()> {
        let object = Object { body, version: self.count(), modified: jiff::Timestamp::now() };
        let mut objects = locked(&self.objects);
        if mode == PutMode::Create && objects.contains_key(key.as_str()) {
            return Err(Error::AlreadyExists { key: key.to_string() });
        }
        objects.insert(key.to_string(), object);
        Ok(())
    }

    fn object(&self, key: &Key) -> Result<Object> {
        locked(&self.objects)
            .get(key.as_str())
            .cloned()
            .ok_or_else(|| Error::NotFound { key: key.to_string() })
    }
}

/// A test that panicked while it held the lock left the map intact: every change is a single insert or remove.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn no_such_upload(key: &Key) -> Error {
    Error::Other { action: format!("upload '{key}'"), detail: "no such upload".into() }
}

#[async_trait]
impl Backend for Memory {
    async fn put(&self, key: &Key, body: Bytes, mode: PutMode) -> Result<()> {
        self.insert(key, body, mode)
    }

    async fn get(&self, key: &Key, options: &ReadOptions) -> Result<Reading> {
        let object = self.object(key)?;
        let info = object.info(key.as_str());
        if options.pin.is_some() && options.pin != info.etag {
            return Err(Error::Changed { key: key.to_string() });
        }
        let range = super::within(key, info.size, options.range.clone())?;
        let body = match (usize::try_from(range.start), usize::try_from(range.end)) {
            (Ok(start), Ok(end)) => object.body.slice(start..end),
            _ => Bytes::new(),
        };
        Ok(Reading { info, range, body: stream::once(async { Ok(body) }).boxed() })
    }

    async fn head(&self, key: &Key) -> Result<ObjectInfo> {
        Ok(self.object(key)?.info(key.as_str()))
    }

    async fn list_page(&self, request: &PageRequest) -> Result<Page> {
        let objects = locked(&self.objects);
        let mut pager = Pager::new(request);
        for (key, object) in objects.range(request.prefix.clone()..) {
            if !key.starts_with(&request.prefix) || !pager.offer(key, || object.info(key)) {
                break;
            }
        }
        Ok(pager.finish())
    }

    async fn delete(&self, keys: &[Key]) -> Result<()> {
        let mut objects = locked(&self.objects);
        for key in keys {
            objects.remove(key.as_str());
        }
        Ok(())
    }

    async fn begin_upload(&self, key: &Key) -> Result<UploadId> {
        let id = format!("{key}#{}", self.count());
        locked(&self.uploads).insert(id.clone(), BTreeMap::new());
        Ok(UploadId(id))
    }

    async fn upload_part(&self, key: &Key, upload: &UploadId, part: &Part) -> Result<PartId> {
        let mut uploads = locked(&self.uploads);
        let parts = uploads.get_mut(&upload.0).ok_or_else(|| no_such_upload(key))?;
        parts.insert(part.number, part.body.clone());
        Ok(PartId(part.number.to_string()))
    }

    async fn complete_upload(&self, key: &Key, upload: &UploadId, parts: &[PartId]) -> Result<()> {
        let uploaded = locked(&self.uploads).remove(&upload.0).ok_or_else(|| no_such_upload(key))?;
        let mut body = BytesMut::new();
        for id in parts {
            let part = id.0.parse().ok().and_then(|number: usize| uploaded.get(&number));
            body.extend_from_slice(part.ok_or_else(|| no_such_upload(key))?);
        }
        self.insert(key, body.freeze(), PutMode::Overwrite)
    }

    async fn abort_upload(&self, _key: &Key, upload: &UploadId) -> Result<()> {
        locked(&self.uploads).remove(&upload.0);
        Ok(())
    }

    async fn open_uploads(&self, prefix: &str) -> Result<Vec<(Key, UploadId)>> {
        let uploads = locked(&self.uploads);
        let below = uploads.keys().filter(|id| id.starts_with(prefix));
        let named = below.filter_map(|id| Some((id.rsplit_once('#')?.0, id)));
        named.map(|(key, id)| Ok((Key::new(key)?, UploadId(id.clone())))).collect()
    }

    async fn signed_url(&self, _key: &Key, _ttl: Duration) -> Result<Url> {
        Err(Error::Unsupported { operation: "signing a URL", reason: "objects are kept in memory".into() })
    }
}
