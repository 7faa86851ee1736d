//! A time limit for every call to storage. Our own stores have limits; a plugin may hang for ever, and the caller
//! would hang with it. Streamed uploads are limited by their writers, because a stream may pause while the source is
//! not read.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use tokio::time::timeout;
use url::Url;

use super::{ByteStream, ObjectReading, ObjectStore, StoreError};

/// How long storage may take. Our own store tries a request seven times, with two minutes without data each time, and
/// its error says more than a timeout here would.
pub(crate) const STORAGE_TIMEOUT: Duration = Duration::from_mins(20);

/// Storage with a time limit for every call.
pub struct Bounded {
    inner: Arc<dyn ObjectStore>,
    limit: Duration,
}

impl Bounded {
    pub fn new(inner: Arc<dyn ObjectStore>) -> Self {
        Self { inner, limit: STORAGE_TIMEOUT }
    }

    /// The time limit of storage that waits itself while it is away: a call may wait this much longer.
    #[must_use]
    pub fn waiting_for(self, outage: Duration) -> Self {
        let limit = self.limit.saturating_add(outage);
        self.with_limit(limit)
    }

    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    async fn call<T>(
        &self,
        action: &'static str,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        timeout(self.limit, call).await.unwrap_or_else(|_elapsed| Err(timed_out(action, self.limit)))
    }
}

fn timed_out(action: &'static str, limit: Duration) -> StoreError {
    StoreError::TimedOut { action, minutes: limit.as_secs().div_ceil(60) }
}

#[async_trait]
impl ObjectStore for Bounded {
    async fn put(&self, key: &str, body: Bytes) -> Result<(), StoreError> {
        self.call("write a file", self.inner.put(key, body)).await
    }

    async fn put_stream(&self, key: &str, body: ByteStream) -> Result<u64, StoreError> {
        self.inner.put_stream(key, body).await
    }

    async fn get_stream(&self, key: &str) -> Result<ObjectReading, StoreError> {
        let ObjectReading { size, body } = self.call("read a file", self.inner.get_stream(key)).await?;
        let limit = self.limit;
        let body = futures::stream::unfold(Some(body), move |body| async move {
            let mut body = body?;
            match timeout(limit, body.next()).await {
                Ok(chunk) => chunk.map(|chunk| (chunk, Some(body))),
                Err(_elapsed) => Some((Err(timed_out("continue reading a file", limit)), None)),
            }
        });
        Ok(ObjectReading { size, body: body.boxed() })
    }

    async fn exists(&self, key: &str) -> Result<bool, StoreError> {
        self.call("look for a file", self.inner.exists(key)).await
    }

    async fn directories(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.call("list directories", self.inner.directories(prefix)).await
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.call("list files", self.inner.keys(prefix)).await
    }

    async fn fingerprint(&self, prefix: &str) -> Result<u64, StoreError> {
        self.call("list files", self.inner.fingerprint(prefix)).await
    }

    async fn delete(&self, keys: &[String]) -> Result<(), StoreError> {
        self.call("delete files", self.inner.delete(keys)).await
    }

    async fn signed_url(&self, key: &str, ttl: Duration) -> Result<Url, StoreError> {
        self.call("sign a link", self.inner.signed_url(key, ttl)).await
    }

    fn stall_limit(&self) -> Duration {
        self.limit
    }

    async fn abort_uploads(&self, prefix: &str) -> Result<u64, StoreError> {
        self.call("abort uploads", self.inner.abort_uploads(prefix)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Storage that never responds.
    struct Hanging;

    #[async_trait]
    impl ObjectStore for Hanging {
        async fn put(&self, _: &str, _: Bytes) -> Result<(), StoreError> {
            std::future::pending().await
        }
        async fn put_stream(&self, _: &str, _: ByteStream) -> Result<u64, StoreError> {
            std::future::pending().await
        }
        async fn get_stream(&self, _: &str) -> Result<ObjectReading, StoreError> {
            Ok(ObjectReading { size: None, body: futures::stream::pending().boxed() })
        }
        async fn exists(&self, _: &str) -> Result<bool, StoreError> {
            std::future::pending().await
        }
        async fn directories(&self, _: &str) -> Result<Vec<String>, StoreError> {
            std::future::pending().await
        }
        async fn keys(&self, _: &str) -> Result<Vec<String>, StoreError> {
            std::future::pending().await
        }
        async fn delete(&self, _: &[String]) -> Result<(), StoreError> {
            std::future::pending().await
        }
        async fn signed_url(&self, _: &str, _: Duration) -> Result<Url, StoreError> {
            std::future::pending().await
        }
        async fn abort_uploads(&self, _: &str) -> Result<u64, StoreError> {
            std::future::pending().await
        }
    }

    #[tokio::test]
    async fn every_call_to_storage_that_hangs_ends() {
        let store = Bounded::new(Arc::new(Hanging)).with_limit(Duration::from_millis(5));
        let ttl = Duration::from_secs(1);
        let ended = [
            store.put("a", Bytes::new()).await.err(),
            store.exists("a").await.err(),
            store.directories("").await.err(),
            store.keys("").await.err(),
            store.delete(&[]).await.err(),
            store.signed_url("a", ttl).await.err(),
            store.abort_uploads("").await.err(),
            store.get("a", 10).await.err(),
        ];
        assert!(ended.iter().all(|error| matches!(error, Some(StoreError::TimedOut { .. }))), "{ended:?}");
    }
}
