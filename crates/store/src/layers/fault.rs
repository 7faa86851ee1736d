//! Injects faults for tests: fail the nth request before or after it took effect, cut off a body, hang. Rules or a
//! seed decide, so that a failure can be reproduced.

use std::collections::BTreeMap;
use std::fs::File;
use std::future::Future;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{StreamExt, stream};

use super::{Layer, Reopen, Request};
use crate::backend::{Reading, RequestKind};
use crate::error::{Error, Result, Unreachable};
use crate::key::Key;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Status 500; the request has no effect.
    Before,
    /// The request takes effect, but the connection is closed before the response.
    After,
    /// Status 503 (slow down); the request has no effect.
    Throttle,
    /// Status 403; the request has no effect.
    Deny,
    /// The body is interrupted after this many bytes.
    CutBody(u64),
    /// The body ends after this many bytes as if it were complete.
    ShortBody(u64),
    /// The request takes this much longer.
    Latency(Duration),
    /// The request never ends.
    Hang,
}

impl Fault {
    fn is_of_body(self) -> bool {
        matches!(self, Self::CutBody(_) | Self::ShortBody(_))
    }
}

/// Applies `fault` to requests number `first` to `first + times - 1` of the kind, counted from 1. Faults of bodies
/// count the bodies that were opened.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    pub kind: RequestKind,
    pub first: u64,
    pub times: u64,
    pub fault: Fault,
}

/// The layer that injects faults.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    rules: Vec<Rule>,
    /// Seed, and how many of a thousand requests fail; the seed decides which ones and how.
    random: Option<(u64, u64)>,
    counts: Arc<Mutex<BTreeMap<RequestKind, u64>>>,
    bodies: Arc<AtomicU64>,
    /// Every request fails, whatever the rules say.
    away: Arc<AtomicBool>,
    log: Option<Arc<File>>,
}

impl Faults {
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        Self { rules: rules.into_iter().collect(), ..Self::default() }
    }

    /// The `nth` request of `kind` fails once.
    pub fn nth(kind: RequestKind, nth: u64, fault: Fault) -> Self {
        Self::new([Rule { kind, first: nth, times: 1, fault }])
    }

    /// Every request of `kind` fails.
    pub fn always(kind: RequestKind, fault: Fault) -> Self {
        Self::new([Rule { kind, first: 1, times: u64::MAX, fault }])
    }

    /// Of a thousand requests, `per_thousand` fail before or after their effect, are delayed, or lose their body;
    /// `seed` decides which.
    pub fn random(seed: u64, per_thousand: u64) -> Self {
        Self { random: Some((seed, per_thousand)), ..Self::default() }
    }

    /// While set, every request fails without an effect.
    pub fn set_away(&self, is_away: bool) {
        self.away.store(is_away, Ordering::Relaxed);
    }

    /// Writes a line to `log` for every fault, at once, so that a process that is killed has logged all earlier
    /// faults.
    #[must_use]
    pub fn logged_to(self, log: Arc<File>) -> Self {
        Self { log: Some(log), ..self }
    }

    fn log_fault(&self, fault: Fault) {
        let Some(log) = &self.log else { return };
        let word = match fault {
            Fault::Before => "error",
            Fault::After => "lost reply",
            Fault::Throttle => "throttled",
            Fault::Deny => "denied",
            Fault::CutBody(_) => "cut body",
            Fault::ShortBody(_) => "short body",
            Fault::Latency(_) => "slow reply",
            Fault::Hang => "no reply",
        };
        let _ = (&**log).write_all(format!("{word}\n").as_bytes()); // an error of the log must not become a fault of the store
    }

    /// The number of requests of `kind` so far.
    pub fn count(&self, kind: RequestKind) -> u64 {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).get(&kind).copied().unwrap_or(0)
    }

    /// Counts the request and returns the fault to inject into it.
    fn next(&self, kind: RequestKind) -> Option<Fault> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let number = counts.entry(kind).and_modify(|count| *count += 1).or_insert(1);
        let number = *number;
        drop(counts);
        self.fault(kind, number, false)
    }

    fn fault(&self, kind: RequestKind, number: u64, of_body: bool) -> Option<Fault> {
        self.decide(kind, number, of_body).inspect(|fault| self.log_fault(*fault))
    }

    fn decide(&self, kind: RequestKind, number: u64, of_body: bool) -> Option<Fault> {
        if !of_body && self.away.load(Ordering::Relaxed) {
            return Some(Fault::Before);
        }
        let hit = |rule: &&Rule| {
            rule.kind == kind
                && rule.fault.is_of_body() == of_body
                && number >= rule.first
                && number - rule.first < rule.times
        };
        if let Some(rule) = self.rules.iter().find(hit) {
            return Some(rule.fault);
        }
        let (seed, per_thousand) = self.random?;
        let dice = mixed(seed ^ (number << 8) ^ (u64::from(of_body) << 7) ^ kind as u64);
        (dice % 1000 < per_thousand).then_some(match (dice >> 32) % 4 {
            _ if of_body => Fault::CutBody((dice >> 34) & 0xFFFF),
            0 => Fault::Before,
            1 => Fault::After,
            2 => Fault::Throttle,
            _ => Fault::Latency(Duration::from_millis((dice >> 34) % 50)),
        })
    }
}

fn mixed(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn action(request: Request<'_>) -> String {
    format!("{} '{}'", request.kind.as_str(), request.key)
}

impl Layer for Faults {
    async fn call<T, F, Fut>(&self, request: Request<'_>, run: F) -> Result<T>
    where
        T: Send,
        F: Fn() -> Fut + Send + Sync,
        Fut: Future<Output = Result<T>> + Send,
    {
        let endpoint = "fault://".to_owned();
        match self.next(request.kind) {
            Some(Fault::Before) => Err(Error::Server {
                endpoint,
                action: action(request),
                detail: "status 500 InternalError".into(),
            }),
            Some(Fault::Throttle) => Err(Error::Throttled { endpoint, detail: "status 503 SlowDown".into() }),
            Some(Fault::Deny) => Err(Error::Denied {
                action: action(request),
                bucket: "fault".into(),
                detail: "status 403 AccessDenied".into(),
            }),
            Some(Fault::After) => {
                run().await?;
                let detail = "the connection was closed".into();
                Err(Error::Unreachable { endpoint, cause: Unreachable::Closed, detail })
            }
            Some(Fault::Latency(delay)) => {
                tokio::time::sleep(delay).await;
                run().await
            }
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::CutBody(_) | Fault::ShortBody(_)) | None => run().await,
        }
    }

    async fn body(&self, key: &Key, reading: Reading, _reopen: Reopen) -> Result<Reading> {
        let number = self.bodies.fetch_add(1, Ordering::Relaxed) + 1;
        let (limit, fails) = match self.fault(RequestKind::Get, number, true) {
            Some(Fault::CutBody(limit)) => (limit, true),
            Some(Fault::ShortBody(limit)) => (limit, false),
            _ => return Ok(reading),
        };
        let action = format!("get '{key}'");
        let state = (reading.body, limit);
        let body = stream::try_unfold(state, move |(mut body, left)| {
            let action = action.clone();
            async move {
                let Some(mut chunk) = body.next().await.transpose()? else { return Ok(None) };
                if left == 0 {
                    let cut = Error::Interrupted { action, detail: "the connection was closed".into() };
                    return if fails { Err(cut) } else { Ok(None) };
                }
                let take = usize::try_from(left).unwrap_or(usize::MAX).min(chunk.len());
                if take < chunk.len() {
                    chunk.truncate(take);
                    // The error is returned by the next poll.
                    body = stream::iter([Ok(bytes::Bytes::from_static(b"lost"))]).boxed();
                }
                Ok(Some((chunk, (body, left - take as u64))))
            }
        });
        Ok(Reading { body: body.boxed(), ..reading })
    }
}
