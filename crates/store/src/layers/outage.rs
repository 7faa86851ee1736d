//! Whether storage is away: since when, and the last failure. The retry layer writes it; the server shows it in the status of
//! backups and restores. By the clock of tokio, so that tests control it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::Error;

/// The state of one store, shared by all its requests. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Outage(Arc<Mutex<Option<Away>>>);

/// Storage does not answer, or answers that it cannot serve requests at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Away {
    /// The first failure after the last answer.
    pub since: Instant,
    /// The last failure, for people.
    pub problem: String,
}

impl Outage {
    /// None if storage answered the last request.
    pub fn now(&self) -> Option<Away> {
        self.away().clone()
    }

    pub(super) fn begin(&self, error: &Error) {
        let mut away = self.away();
        let since = away.as_ref().map_or_else(Instant::now, |away| away.since);
        *away = Some(Away { since, problem: error.to_string() });
    }

    pub(super) fn end(&self) {
        *self.away() = None;
    }

    /// Whether storage has been away for less than this, or is not away.
    pub(super) fn is_shorter_than(&self, limit: Duration) -> bool {
        self.away().as_ref().is_none_or(|away| away.since.elapsed() < limit)
    }

    fn away(&self) -> MutexGuard<'_, Option<Away>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
