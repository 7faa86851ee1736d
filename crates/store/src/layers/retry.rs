//! Repeats failed requests; no other layer does (object_store's own retries are off). The number of attempts and the
//! time are limited, pauses grow and are jittered, and only errors that are temporary are repeated. An interrupted
//! body is resumed at the same offset, pinned to the same version of the object. A create-only write whose outcome is
//! unknown is not repeated here: `Store::create` first checks whether it took effect.
//!
//! With `RetryPolicy::outage`, requests also wait while storage is away, whatever their number of attempts. The limit
//! counts from the first failure since storage last answered, for all requests of the store together: when storage does
//! not come back, requests that start later do not wait that long again.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::{StreamExt, stream};
use tokio::time::{Instant, sleep, timeout_at};

use super::outage::Outage;
use super::{Layer, Reopen, Request};
use crate::backend::{ReadOptions, Reading, RequestKind};
use crate::error::{Error, Result, Retry as When};
use crate::key::Key;

/// How often, at which intervals and for how long a request is tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The number of attempts in all; 1 means no retries.
    pub attempts: u32,
    /// The pause after the first failure; it doubles each time.
    pub first_pause: Duration,
    pub longest_pause: Duration,
    /// The time limit for a request with all its attempts; `None` leaves it to the HTTP timeouts.
    pub deadline: Option<Duration>,
    /// How long storage may be away (unreachable, failing, throttling); requests are repeated until then even if they
    /// have had all their attempts. `None`: only the attempts count.
    pub outage: Option<Duration>,
}

impl Default for RetryPolicy {
    /// Long enough for a store that restarts.
    fn default() -> Self {
        Self {
            attempts: 7,
            first_pause: Duration::from_millis(200),
            longest_pause: Duration::from_secs(15),
            deadline: None,
            outage: None,
        }
    }
}

impl RetryPolicy {
    /// For the validation of a location: a result within `deadline`, and at most one retry.
    pub fn probe(deadline: Duration) -> Self {
        Self {
            attempts: 2,
            first_pause: Duration::from_millis(200),
            longest_pause: Duration::from_millis(200),
            deadline: Some(deadline),
            outage: None,
        }
    }

    /// With this limit for the time that storage may be away.
    #[must_use]
    pub fn with_outage(self, limit: Duration) -> Self {
        Self { outage: Some(limit), ..self }
    }

    fn pause(&self, failures: u32, random: u64) -> Duration {
        let full =
            self.first_pause.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(self.longest_pause);
        // Between half and all of it, so that many clients do not retry at the same time.
        let share = u32::try_from(random % 1024).unwrap_or(0);
        full / 2 + full * share / 2048
    }
}

/// The layer that repeats requests.
#[derive(Debug, Clone)]
pub struct Retry {
    policy: RetryPolicy,
    random: Arc<AtomicU64>,
    outage: Outage,
}

impl Retry {
    /// `seed` makes the jitter reproducible.
    pub fn new(policy: RetryPolicy, seed: u64) -> Self {
        Self { policy, random: Arc::new(AtomicU64::new(seed)), outage: Outage::default() }
    }

    /// Shows in `outage` whether storage is away.
    #[must_use]
    pub fn shown_in(self, outage: Outage) -> Self {
        Self { outage, ..self }
    }

    /// Records how a request ended. Any answer of storage ends an outage.
    fn note(&self, error: Option<&Error>) {
        match error {
            Some(error) if error.retry() == When::Now => self.outage.begin(error),
            _ => self.outage.end(),
        }
    }

    fn random(&self) -> u64 {
        // splitmix64 is good enough for jitter.
        let mut z = self.random.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// The pause before the next attempt; None if this error must not be repeated.
    fn next_pause(
        &self,
        kind: RequestKind,
        error: &Error,
        failures: &Failures,
        deadline: Option<Instant>,
    ) -> Option<Duration> {
        let repeatable =
            error.retry() == When::Now && !(kind == RequestKind::Create && error.outcome_unknown());
        let waits = |limit| self.outage.is_shorter_than(limit) && failures.since().elapsed() < limit;
        if !repeatable || failures.count >= self.policy.attempts && !self.policy.outage.is_some_and(waits) {
            return None;
        }
        let pause = self.policy.pause(failures.count, self.random());
        deadline.is_none_or(|end| Instant::now() + pause < end).then_some(pause)
    }
}

impl Layer for Retry {
    async fn call<T, F, Fut>(&self, request: Request<'_>, run: F) -> Result<T>
    where
        T: Send,
        F: Fn() -> Fut + Send + Sync,
        Fut: Future<Output = Result<T>> + Send,
    {
        let deadline = self.policy.deadline.map(|limit| Instant::now() + limit);
        let mut last: Option<Error> = None;
        let mut failures = Failures::default();
        loop {
            let result = match deadline {
                None => run().await,
                Some(end) => match timeout_at(end, run()).await {
                    Ok(result) => result,
                    // The earlier error says more than the timeout.
                    Err(_) => return Err(last.unwrap_or_else(|| out_of_time(request, self.policy.deadline))),
                },
            };
            self.note(result.as_ref().err());
            let error = match result {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            failures.add();
            match self.next_pause(request.kind, &error, &failures, deadline) {
                None => return Err(error),
                Some(pause) => {
                    tracing::debug!(request = request.kind.as_str(), key = request.key, %error, failures = failures.count, "repeating");
                    last = Some(error);
                    sleep(pause).await;
                }
            }
        }
    }

    async fn body(&self, key: &Key, reading: Reading, reopen: Reopen) -> Result<Reading> {
        let Some(etag) = reading.info.etag.clone() else {
            return Ok(reading);
        };
        let state = Resume {
            retry: self.clone(),
            key: key.clone(),
            etag,
            position: reading.range.start,
            end: reading.range.end,
            failures: Failures::default(),
            body: reading.body,
            reopen,
        };
        let body = stream::try_unfold(state, |mut state| async move {
            let chunk = state.next().await?;
            Ok(chunk.map(|chunk| (chunk, state)))
        });
        Ok(Reading { info: reading.info, range: reading.range, body: body.boxed() })
    }
}

fn out_of_time(request: Request<'_>, limit: Option<Duration>) -> Error {
    let action = format!("{} '{}'", request.kind.as_str(), request.key);
    Error::Deadline { action, seconds: limit.unwrap_or_default().as_secs() }
}

/// The failures of one request, or of one body since its last chunk.
#[derive(Debug, Default)]
struct Failures {
    count: u32,
    first: Option<Instant>,
}

impl Failures {
    fn add(&mut self) {
        self.count += 1;
        self.first.get_or_insert_with(Instant::now);
    }

    /// The first failure; a request that answers now and then must not wait for ever because of the others' answers.
    fn since(&self) -> Instant {
        self.first.unwrap_or_else(Instant::now)
    }
}

/// A body that is resumed after an interruption.
struct Resume {
    retry: Retry,
    key: Key,
    etag: String,
    position: u64,
    end: u64,
    failures: Failures,
    body: stream::BoxStream<'static, Result<bytes::Bytes>>,
    reopen: Reopen,
}

impl Resume {
    async fn next(&mut self) -> Result<Option<bytes::Bytes>> {
        loop {
            let error = match self.body.next().await {
                Some(Ok(chunk)) => {
                    self.position += chunk.len() as u64;
                    self.failures = Failures::default();
                    self.retry.outage.end();
                    return Ok(Some(chunk));
                }
                // All bytes were received; an error after the last byte does not matter.
                _ if self.position >= self.end => return Ok(None),
                None => Error::Interrupted {
                    action: format!("get '{}'", self.key),
                    detail: format!("it ended at byte {} of {}", self.position, self.end),
                },
                Some(Err(error)) => error,
            };
            self.failures.add();
            self.retry.note(Some(&error));
            let Some(pause) = self.retry.next_pause(RequestKind::Get, &error, &self.failures, None) else {
                return Err(error);
            };
            tracing::debug!(key = %self.key, %error, position = self.position, "resuming an interrupted read");
            sleep(pause).await;
            let options = ReadOptions { range: Some(self.position..self.end), pin: Some(self.etag.clone()) };
            match (self.reopen)(options).await {
                Ok(reading) => self.body = reading.body,
                Err(again) if again.retry() == When::Now => {
                    self.body = stream::once(async { Err(again) }).boxed();
                }
                Err(fatal) => return Err(fatal),
            }
        }
    }
}
