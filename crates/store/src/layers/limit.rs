//! Limits the number of concurrent requests, and so the load on the store. Callers wait; no request is refused. A
//! response body that is being read does not count: its reader may need another request to continue (a copy within
//! one store) and would deadlock.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::Semaphore;

use super::{Layer, Request};
use crate::error::{Error, Result};

/// Bounds the number of requests in flight.
#[derive(Debug, Clone)]
pub struct Limit {
    permits: Arc<Semaphore>,
}

impl Limit {
    /// `concurrent` is raised to 1 if it is 0.
    pub fn new(concurrent: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(concurrent.max(1))) }
    }
}

impl Layer for Limit {
    async fn call<T, F, Fut>(&self, request: Request<'_>, run: F) -> Result<T>
    where
        T: Send,
        F: Fn() -> Fut + Send + Sync,
        Fut: Future<Output = Result<T>> + Send,
    {
        let _permit = self.permits.acquire().await.map_err(|_| Error::Other {
            action: request.kind.as_str().to_owned(),
            detail: "the limit on concurrent requests was closed".into(),
        })?;
        run().await
    }
}
