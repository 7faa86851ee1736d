//! Liveness and readiness of the process: set by the operator, read by the probes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long the server's main loop may stall. It iterates every few seconds, whether or not the API server responds;
/// a longer stall means that the process hangs and the kubelet should restart it.
const STALL_LIMIT: Duration = Duration::from_mins(1);

/// Shared between the operator, which updates it, and the HTTP server, which serves it.
#[derive(Clone, Debug)]
pub struct Health {
    ready: Arc<AtomicBool>,
    last_turn: Arc<Mutex<Instant>>,
}

impl Default for Health {
    fn default() -> Self {
        Self { ready: Arc::default(), last_turn: Arc::new(Mutex::new(Instant::now())) }
    }
}

impl Health {
    /// Ready means that the cluster responded and has the custom resources. A standby replica is ready too.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    /// Records that the main loop has iterated.
    pub fn pulse(&self) {
        *self.last_turn.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    pub(crate) fn ready(&self) -> bool {
        self.alive() && self.ready.load(Ordering::Relaxed)
    }

    pub(crate) fn alive(&self) -> bool {
        self.alive_at(Instant::now())
    }

    fn alive_at(&self, now: Instant) -> bool {
        let last = *self.last_turn.lock().unwrap_or_else(PoisonError::into_inner);
        now.saturating_duration_since(last) <= STALL_LIMIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_whose_main_loop_stalls_is_not_alive_until_it_iterates_again() {
        let health = Health::default();
        let start = Instant::now();
        assert!(health.alive_at(start + Duration::from_secs(59)));
        assert!(!health.alive_at(start + Duration::from_secs(62)));
        *health.last_turn.lock().unwrap() += Duration::from_secs(50);
        assert!(health.alive_at(start + Duration::from_secs(62)));
        health.pulse();
        assert!(health.alive());
    }

    #[test]
    fn a_process_is_ready_once_the_operator_sets_it() {
        let health = Health::default();
        assert!(health.alive() && !health.ready());
        health.set_ready(true);
        assert!(health.ready());
    }
}
