//! A bucket in memory whose faults can be switched on and off while it is used. Its clock is that of the locks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use lifeboat_store::backend::{ObjectInfo, Page, PageRequest, Part, PartId, PutMode, UploadId};
use lifeboat_store::{Backend, Error, Key, Memory, ReadOptions, Reading, Result, Store};

/// The current faults.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SwitchedFaults {
    /// A write takes effect but its response never arrives.
    pub(crate) puts_hang: bool,
    pub(crate) puts_fail: bool,
    pub(crate) deletes_fail: bool,
    /// The task that uploads a pack panics.
    pub(crate) packs_panic: bool,
    /// Like restic's REST server: no times, and nothing is replaced.
    pub(crate) is_rest: bool,
}

#[derive(Debug, Default)]
pub(crate) struct SwitchableBackend {
    inner: Memory,
    faults: Mutex<SwitchedFaults>,
    times: Mutex<BTreeMap<String, Timestamp>>,
    reads: Mutex<Vec<String>>,
}

impl SwitchableBackend {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn store(self: &Arc<Self>) -> Store {
        super::unreliable::store(Arc::clone(self) as Arc<dyn Backend>)
    }

    pub(crate) fn faults(&self) -> MutexGuard<'_, SwitchedFaults> {
        self.faults.lock().unwrap()
    }

    /// Sets the time of an object.
    pub(crate) fn date(&self, key: &str, modified: Timestamp) {
        self.times.lock().unwrap().insert(key.to_owned(), modified);
    }

    /// How often objects below a prefix were read.
    pub(crate) fn reads_of(&self, prefix: &str) -> usize {
        self.reads.lock().unwrap().iter().filter(|key| key.starts_with(prefix)).count()
    }

    fn dated(&self, info: ObjectInfo) -> ObjectInfo {
        if self.faults().is_rest {
            return ObjectInfo { modified: crate::lock::clock::now(), is_dated: false, ..info };
        }
        let modified = self.times.lock().unwrap().get(&info.key).copied().unwrap_or(info.modified);
        ObjectInfo { modified, ..info }
    }
}

fn refuse(wrong: bool) -> Result<()> {
    let failed = || Error::Other { action: "the request".to_owned(), detail: "the store fails".to_owned() };
    if wrong { Err(failed()) } else { Ok(()) }
}

#[async_trait]
impl Backend for SwitchableBackend {
    async fn put(&self, key: &Key, body: Bytes, mode: PutMode) -> Result<()> {
        let faults = *self.faults();
        assert!(!(faults.packs_panic && key.as_str().starts_with("data/")), "an upload panics on purpose");
        refuse(faults.puts_fail)?;
        if faults.is_rest && mode == PutMode::Overwrite && self.inner.head(key).await.is_ok() {
            let reason = format!("the REST server keeps '{key}' as it is");
            return Err(Error::Unsupported { operation: "replacing an object", reason });
        }
        self.inner.put(key, body, mode).await?;
        self.times.lock().unwrap().insert(key.to_string(), crate::lock::clock::now());
        if faults.puts_hang {
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    async fn get(&self, key: &Key, options: &ReadOptions) -> Result<Reading> {
        self.reads.lock().unwrap().push(key.to_string());
        self.inner.get(key, options).await
    }

    async fn head(&self, key: &Key) -> Result<ObjectInfo> {
        self.inner.head(key).await.map(|info| self.dated(info))
    }

    async fn list_page(&self, request: &PageRequest) -> Result<Page> {
        let mut page = self.inner.list_page(request).await?;
        page.objects = page.objects.into_iter().map(|info| self.dated(info)).collect();
        Ok(page)
    }

    async fn delete(&self, keys: &[Key]) -> Result<()> {
        refuse(self.faults().deletes_fail)?;
        self.inner.delete(keys).await
    }

    async fn begin_upload(&self, key: &Key) -> Result<UploadId> {
        self.inner.begin_upload(key).await
    }

    async fn upload_part(&self, key: &Key, upload: &UploadId, part: &Part) -> Result<PartId> {
        self.inner.upload_part(key, upload, part).await
    }

    async fn complete_upload(&self, key: &Key, upload: &UploadId, parts: &[PartId]) -> Result<()> {
        self.inner.complete_upload(key, upload, parts).await
    }

    async fn abort_upload(&self, key: &Key, upload: &UploadId) -> Result<()> {
        self.inner.abort_upload(key, upload).await
    }

    async fn signed_url(&self, key: &Key, ttl: Duration) -> Result<url::Url> {
        self.inner.signed_url(key, ttl).await
    }
}
