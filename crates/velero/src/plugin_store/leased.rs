//! A location's plugin store in use: keeps its process alive until the last call and the last stream have ended.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use lifeboat_archive::{ByteStream, ObjectReading, ObjectStore, StoreError};
use url::Url;

use super::Held;

pub(super) struct Leased {
    held: Arc<Held>,
}

impl Leased {
    pub(super) fn new(held: Arc<Held>) -> Self {
        Self { held }
    }
}

#[async_trait]
impl ObjectStore for Leased {
    async fn put(&self, key: &str, body: Bytes) -> Result<(), StoreError> {
        self.held.store.put(key, body).await
    }

    async fn put_stream(&self, key: &str, body: ByteStream) -> Result<u64, StoreError> {
        self.held.store.put_stream(key, body).await
    }

    async fn get_stream(&self, key: &str) -> Result<ObjectReading, StoreError> {
        let ObjectReading { size, body } = self.held.store.get_stream(key).await?;
        let held = Arc::clone(&self.held);
        let body = body.inspect(move |_| {
            let _ = &held;
        });
        Ok(ObjectReading { size, body: body.boxed() })
    }

    async fn exists(&self, key: &str) -> Result<bool, StoreError> {
        self.held.store.exists(key).await
    }

    async fn directories(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.held.store.directories(prefix).await
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.held.store.keys(prefix).await
    }

    async fn fingerprint(&self, prefix: &str) -> Result<u64, StoreError> {
        self.held.store.fingerprint(prefix).await
    }

    async fn delete(&self, keys: &[String]) -> Result<(), StoreError> {
        self.held.store.delete(keys).await
    }

    async fn signed_url(&self, key: &str, ttl: Duration) -> Result<Url, StoreError> {
        self.held.store.signed_url(key, ttl).await
    }

    async fn abort_uploads(&self, prefix: &str) -> Result<u64, StoreError> {
        self.held.store.abort_uploads(prefix).await
    }
}
