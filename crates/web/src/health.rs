//! Is the process alive, is it ready: told by the operator, read by the probes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long the server's main loop may make no turn. It turns every few seconds, whether or not the API server answers:
/// a longer silence is a process that hangs, which the kubelet should start again.
const PATIENCE: Duration = Duration::from_mins(1);

/// Shared between the operator, which tells, and the HTTP server, which shows.
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
    /// Ready: the cluster answered and has the custom resources. A standby replica is ready too.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    /// The main loop made a turn.
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
        now.saturating_duration_since(last) <= PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_whose_main_loop_stands_still_is_not_alive_until_it_turns_again() {
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
    fn a_process_is_ready_when_it_is_told_so() {
        let health = Health::default();
        assert!(health.alive() && !health.ready());
        health.set_ready(true);
        assert!(health.ready());
    }
}
