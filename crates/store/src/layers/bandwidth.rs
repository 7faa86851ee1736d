//! Bytes in a second, each way, over everything that shares one `Bandwidth`. A bucket gives each piece of data the
//! moment at which it may go: whoever comes gets the next free moment, and asks for its next piece only then, so
//! concurrent requests take turns. Bodies that are read are paced as they stream. What is written is paced by the
//! HTTP client while it streams (`http::transport`); a directory or memory takes an object in one piece, so there
//! the layer makes the request wait for its turn first.

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

/// The piece that takes turns.
pub(crate) const PIECE: usize = 64 * 1024;

/// What an idle line may catch up on: enough that timers do not slow a fast line down.
const BURST: Duration = Duration::from_millis(50);

/// The limits; the default has none. Clones share their buckets.
#[derive(Debug, Clone, Default)]
pub struct Bandwidth {
    pub(crate) upload: Option<Arc<Bucket>>,
    pub(crate) download: Option<Arc<Bucket>>,
}

impl Bandwidth {
    /// Limits in bytes a second.
    pub fn new(upload: Option<NonZeroU64>, download: Option<NonZeroU64>) -> Self {
        let bucket = |rate| Arc::new(Bucket::new(rate));
        Self { upload: upload.map(bucket), download: download.map(bucket) }
    }

    pub fn is_unlimited(&self) -> bool {
        self.upload.is_none() && self.download.is_none()
    }
}

/// Gives out moments.
#[derive(Debug)]
pub(crate) struct Bucket {
    rate: NonZeroU64,
    /// When the line is free again.
    free: Mutex<Option<Instant>>,
}

impl Bucket {
    fn new(rate: NonZeroU64) -> Self {
        Self { rate, free: Mutex::new(None) }
    }

    /// When the next `bytes` may go.
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

    /// Waits until all of `bytes` had their turn, piece by piece.
    async fn wait(&self, bytes: u64) {
        let mut left = bytes;
        while left > 0 {
            let piece = left.min(PIECE as u64);
            sleep_until(self.reserve(usize::try_from(piece).unwrap_or(PIECE))).await;
            left -= piece;
        }
    }
}

/// The layer that makes requests wait for their turn.
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
