//! Object stores.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;

use crate::{Config, Result};

/// The bytes of an object, in pieces.
pub type Body = BoxStream<'static, Result<Bytes>>;

/// Object storage of one provider. Keys are full keys that include the location's prefix.
#[async_trait]
pub trait ObjectStore: Send + Sync + 'static {
    /// The settings of a BackupStorageLocation, with `bucket` and `prefix`, and with `caCert` and `credentialsFile` if
    /// the location has them. Called before every other method, and possibly again.
    async fn init(&self, config: Config) -> Result<()>;
    /// Writes an object and replaces an existing one. If the body fails or the call is dropped, nothing may be stored.
    async fn put(&self, bucket: &str, key: &str, body: Body) -> Result<()>;
    async fn exists(&self, bucket: &str, key: &str) -> Result<bool>;
    async fn get(&self, bucket: &str, key: &str) -> Result<Body>;
    /// The prefixes directly below `prefix`, in full, each ending in `delimiter`.
    async fn list_prefixes(&self, bucket: &str, prefix: &str, delimiter: &str) -> Result<Vec<String>>;
    /// All keys that start with `prefix`. An incomplete listing must be an error.
    async fn list(&self, bucket: &str, prefix: &str) -> Result<Vec<String>>;
    /// A missing object is not an error.
    async fn delete(&self, bucket: &str, key: &str) -> Result<()>;
    /// A URL that lets its holder read the object for `ttl`.
    async fn signed_url(&self, bucket: &str, key: &str, ttl: Duration) -> Result<String>;
}
