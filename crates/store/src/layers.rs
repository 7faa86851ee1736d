//! Layers around a backend. A layer is one function, `call`, that runs any request; only `Layered` knows the methods
//! of the trait. Response bodies, which are still being read after `call` has returned, go through `body`. The order
//! in a `Store`, from the outside: retry, limit, bandwidth, observer, backend; tests add the fault layer next to the
//! backend.

pub mod bandwidth;
#[cfg(feature = "testing")]
pub(crate) mod fault;
pub mod limit;
pub mod observe;
pub mod outage;
pub mod retry;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use url::Url;

use crate::backend::{
    Backend, ObjectInfo, Page, PageRequest, Part, PartId, PutMode, ReadOptions, Reading, RequestKind,
    UploadId,
};
use crate::error::Result;
use crate::key::Key;

/// A request, as a layer sees it.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub kind: RequestKind,
    /// The key or prefix.
    pub key: &'a str,
    /// The size of the request body.
    pub bytes: u64,
}

/// Opens the same object again at the offset at which a body was interrupted.
pub type Reopen =
    Arc<dyn Fn(ReadOptions) -> futures::future::BoxFuture<'static, Result<Reading>> + Send + Sync>;

/// Code that wraps every request.
pub trait Layer: fmt::Debug + Send + Sync + 'static {
    /// Runs the request: once, several times, delayed, or not at all.
    fn call<T, F, Fut>(&self, request: Request<'_>, run: F) -> impl Future<Output = Result<T>> + Send
    where
        T: Send,
        F: Fn() -> Fut + Send + Sync,
        Fut: Future<Output = Result<T>> + Send;

    /// Wraps the body of an object that is being read.
    fn body(
        &self,
        _key: &Key,
        reading: Reading,
        _reopen: Reopen,
    ) -> impl Future<Output = Result<Reading>> + Send {
        async { Ok(reading) }
    }
}

/// A backend wrapped in a layer.
#[derive(Debug)]
pub struct Layered<L> {
    layer: L,
    inner: Arc<dyn Backend>,
}

impl<L: Layer> Layered<L> {
    pub fn new(layer: L, inner: Arc<dyn Backend>) -> Self {
        Self { layer, inner }
    }
}

fn request(kind: RequestKind, key: &Key) -> Request<'_> {
    Request { kind, key: key.as_str(), bytes: 0 }
}

#[async_trait]
impl<L: Layer> Backend for Layered<L> {
    async fn put(&self, key: &Key, body: Bytes, mode: PutMode) -> Result<()> {
        let kind = match mode {
            PutMode::Overwrite => RequestKind::Put,
            PutMode::Create => RequestKind::Create,
        };
        let request = Request { kind, key: key.as_str(), bytes: body.len() as u64 };
        self.layer.call(request, || self.inner.put(key, body.clone(), mode)).await
    }

    async fn get(&self, key: &Key, options: &ReadOptions) -> Result<Reading> {
        let reading =
            self.layer.call(request(RequestKind::Get, key), || self.inner.get(key, options)).await?;
        let (inner, name) = (Arc::clone(&self.inner), key.clone());
        let reopen: Reopen = Arc::new(move |options| {
            let (inner, name) = (Arc::clone(&inner), name.clone());
            Box::pin(async move { inner.get(&name, &options).await })
        });
        self.layer.body(key, reading, reopen).await
    }

    async fn head(&self, key: &Key) -> Result<ObjectInfo> {
        self.layer.call(request(RequestKind::Head, key), || self.inner.head(key)).await
    }

    async fn list_page(&self, page: &PageRequest) -> Result<Page> {
        let request = Request { kind: RequestKind::List, key: &page.prefix, bytes: 0 };
        self.layer.call(request, || self.inner.list_page(page)).await
    }

    async fn delete(&self, keys: &[Key]) -> Result<()> {
        let key = keys.first().map(Key::as_str).unwrap_or_default();
        let request = Request { kind: RequestKind::Delete, key, bytes: 0 };
        self.layer.call(request, || self.inner.delete(keys)).await
    }

    async fn begin_upload(&self, key: &Key) -> Result<UploadId> {
        self.layer.call(request(RequestKind::BeginUpload, key), || self.inner.begin_upload(key)).await
    }

    async fn upload_part(&self, key: &Key, upload: &UploadId, part: &Part) -> Result<PartId> {
        let bytes = part.body.len() as u64;
        let request = Request { kind: RequestKind::UploadPart, key: key.as_str(), bytes };
        self.layer.call(request, || self.inner.upload_part(key, upload, part)).await
    }

    async fn complete_upload(&self, key: &Key, upload: &UploadId, parts: &[PartId]) -> Result<()> {
        let run = || self.inner.complete_upload(key, upload, parts);
        self.layer.call(request(RequestKind::CompleteUpload, key), run).await
    }

    async fn abort_upload(&self, key: &Key, upload: &UploadId) -> Result<()> {
        let run = || self.inner.abort_upload(key, upload);
        self.layer.call(request(RequestKind::AbortUpload, key), run).await
    }

    async fn signed_url(&self, key: &Key, ttl: Duration) -> Result<Url> {
        self.layer.call(request(RequestKind::Sign, key), || self.inner.signed_url(key, ttl)).await
    }

    async fn remove_unfinished(&self, prefix: &str, age: Duration) -> Result<u64> {
        let request = Request { kind: RequestKind::Delete, key: prefix, bytes: 0 };
        self.layer.call(request, || self.inner.remove_unfinished(prefix, age)).await
    }

    async fn open_uploads(&self, prefix: &str) -> Result<Vec<(Key, UploadId)>> {
        let request = Request { kind: RequestKind::List, key: prefix, bytes: 0 };
        self.layer.call(request, || self.inner.open_uploads(prefix)).await
    }
}
