//! Object stores.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;

use crate::{Config, Result};

/// The bytes of an object, in pieces.
pub type Body = BoxStream<'static, Result<Bytes>>;

/// Object storage of one provider. Keys are whole keys: the location's prefix is part of them.
#[async_trait]
pub trait ObjectStore: Send + Sync + 'static {
    /// The settings of a BackupStorageLocation, with `bucket`, `prefix`, and `caCert` and `credentialsFile` where there
    /// are any. Comes before every other call, and may come again.
    async fn init(&self, config: Config) -> Result<()>;
    /// Writes an object, replacing what is there. An error of the body, or being dropped, must leave nothing behind.
    async fn put(&self, bucket: &str, key: &str, body: Body) -> Result<()>;
    async fn exists(&self, bucket: &str, key: &str) -> Result<bool>;
    async fn get(&self, bucket: &str, key: &str) -> Result<Body>;
    /// The prefixes right below `prefix`, whole and each ending in `delimiter`.
    async fn list_prefixes(&self, bucket: &str, prefix: &str, delimiter: &str) -> Result<Vec<String>>;
    /// All keys that start with `prefix`. A listing is complete or an error.
    async fn list(&self, bucket: &str, prefix: &str) -> Result<Vec<String>>;
    /// One that is not there is no error.
    async fn delete(&self, bucket: &str, key: &str) -> Result<()>;
    /// A URL that lets its holder read the object for `ttl`.
    async fn signed_url(&self, bucket: &str, key: &str, ttl: Duration) -> Result<String>;
}
