//! Is the process alive, is it ready: set by the operator, read by the probes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Shared between the operator, which sets it, and the HTTP server, which shows it.
#[derive(Clone, Debug, Default)]
pub struct Health {
    ready: Arc<AtomicBool>,
    broken: Arc<AtomicBool>,
}

impl Health {
    /// Ready: the cluster answered and has the custom resources. A standby replica is ready too.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    /// Broken: a part that must run has ended; the kubelet should start the process again.
    pub fn set_broken(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    pub(crate) fn ready(&self) -> bool {
        self.alive() && self.ready.load(Ordering::Relaxed)
    }

    pub(crate) fn alive(&self) -> bool {
        !self.broken.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_process_is_neither_alive_nor_ready() {
        let health = Health::default();
        assert!(health.alive() && !health.ready());
        health.set_ready(true);
        assert!(health.ready());
        health.set_broken();
        assert!(!health.alive() && !health.ready());
    }
}
