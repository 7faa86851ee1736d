//! Limits the bytes per second in each direction, for everything that shares one `Bandwidth`. A token bucket assigns
//! each piece of data the time at which it may be transferred. A request asks for its next piece only after that
//! time, so concurrent requests take turns. Response bodies are delayed while they are read. Request bodies are
//! delayed by the HTTP client while it sends them (`http::transport`); a directory or memory takes an object in one
//! piece, so there the layer delays the whole request.

use std::future::Future;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use tokio::time::{Instant, sleep_until};

use super::{Layer, Reopen, Request};
use crate::backend::Reading;
use crate::error::Result;
use crate::key::Key;

/// The size of the pieces for which requests take turns.
pub(crate) const PIECE: usize = 64 * 1024;

/// How much unused time may be caught up after an idle period: enough that timers do not slow down a fast connection.
const BURST: Duration = Duration::from_millis(50);

/// The limits; the default is unlimited. Clones share their token buckets.
#[derive(Debug, Clone, Default)]
pub struct Bandwidth {
    pub(crate) upload: Option<Arc<TokenBucket>>,
    pub(crate) download: Option<Arc<TokenBucket>>,
}

impl Bandwidth {
    /// Limits in bytes per second.
    pub fn new(upload: Option<NonZeroU64>, download: Option<NonZeroU64>) -> Self {
        let bucket = |rate| Arc::new(TokenBucket::new(rate));
        Self { upload: upload.map(bucket), download: download.map(bucket) }
    }

    pub fn is_unlimited(&self) -> bool {
        self.upload.is_none() && self.download.is_none()
    }
}

/// A token bucket: assigns times of transfer at a fixed rate.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    rate: NonZeroU64,
    /// The end of the last transfer that was assigned.
    free: Mutex<Option<Instant>>,
}

impl TokenBucket {
    fn new(rate: NonZeroU64) -> Self {
        Self { rate, free: Mutex::new(None) }
    }

    /// The time at which the next `bytes` may be transferred.
    pub(crate) fn reserve(&self, bytes: usize) -> Instant {
        let now = Instant::now();
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let at = free.map_or(now, |free| free.max(earliest));
        *free = Some(at + self.duration(bytes));
        at
    }

    fn duration(&self, bytes: usize) -> Duration {
        let nanoseconds = bytes as u128 * 1_000_000_000 / u128::from(self.rate.get());
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX / 1024))
    }

    /// Waits for the times of all `bytes`, piece by piece.
    async fn wait(&self, bytes: u64) {
        let mut left = bytes;
        while left > 0 {
            let piece = left.min(PIECE as u64);
            sleep_until(self.reserve(usize::try_from(piece).unwrap_or(PIECE))).await;
            left -= piece;
        }
    }
}

/// The layer that delays requests to keep the limits.
#[derive(Debug, Clone)]
pub struct Pace(pub Bandwidth);

impl Layer for Pace {
    async fn call<T, F, Fut>(&self, request: Request<'_>, run: F) -> Result<T>
    where
        T: Send,
        F: Fn() -> Fut + Send + Sync,
        Fut: Future<Output = Result<T>> + Send,
    {
        if let Some(bucket) = &self.0.upload {
            bucket.wait(request.bytes).await;
        }
        run().await
    }

    async fn body(&self, _key: &Key, reading: Reading, _reopen: Reopen) -> Result<Reading> {
        let Some(bucket) = self.0.download.clone() else { return Ok(reading) };
        let body = stream::try_unfold((reading.body, bucket), |(mut body, bucket)| async move {
            let chunk: Option<Bytes> = body.next().await.transpose()?;
            let Some(chunk) = chunk else { return Ok(None) };
            bucket.wait(chunk.len() as u64).await;
            Ok(Some((chunk, (body, bucket))))
        });
        Ok(Reading { body: body.boxed(), ..reading })
    }
}
