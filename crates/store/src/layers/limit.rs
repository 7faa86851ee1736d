//! At most so many requests at once, bodies that are being read included: the bound on memory and on the load we
//! put on the store. Outside callers wait; nothing is refused.

use std::future::Future;
use std::sync::Arc;

use futures::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Layer, Reopen, Request};
use crate::backend::Reading;
use crate::error::{Error, Result};
use crate::key::Key;

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

    async fn permit(&self, action: &str) -> Result<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).acquire_owned().await.map_err(|_| Error::Other {
            action: action.to_owned(),
            detail: "the limit on concurrent requests was closed".into(),
        })
    }
}

impl Layer for Limit {
    async fn call<T, F, Fut>(&self, request: Request<'_>, run: F) -> Result<T>
    where
        T: Send,
        F: Fn() -> Fut + Send + Sync,
        Fut: Future<Output = Result<T>> + Send,
    {
        let _permit = self.permit(request.kind.as_str()).await?;
        run().await
    }

    async fn body(&self, _key: &Key, reading: Reading, _reopen: Reopen) -> Result<Reading> {
        let permit = self.permit("get").await?;
        let body = reading.body.inspect(move |_| {
            let _held_while_the_body_lives = &permit;
        });
        Ok(Reading { body: body.boxed(), ..reading })
    }
}
