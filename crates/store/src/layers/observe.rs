//! Reports every request to an observer: the hook for metrics. All labels are from fixed lists.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Layer, Request};
use crate::backend::RequestKind;
use crate::error::Result;

/// Is called for every finished request, including each attempt of a repeated one.
pub trait Observer: std::fmt::Debug + Send + Sync + 'static {
    /// `outcome` is `ok` or the category of the error; `bytes` is the size of the request body.
    fn request(&self, kind: RequestKind, outcome: &'static str, bytes: u64, elapsed: Duration);
}

/// The layer that calls an observer.
#[derive(Debug, Clone)]
pub struct Observe(pub Arc<dyn Observer>);

impl Layer for Observe {
    async fn call<T, F, Fut>(&self, request: Request<'_>, run: F) -> Result<T>
    where
        T: Send,
        F: Fn() -> Fut + Send + Sync,
        Fut: Future<Output = Result<T>> + Send,
    {
        let start = Instant::now();
        let result = run().await;
        let outcome = result.as_ref().err().map_or("ok", |error| error.category());
        self.0.request(request.kind, outcome, request.bytes, start.elapsed());
        result
    }
}
