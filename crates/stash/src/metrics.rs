//! The metrics of Stash's API in `/metrics`: upstream's names, each in its older and its newer form, so that existing
//! dashboards continue to work. Only a leader knows the values.

mod repositories;
mod restores;
mod sessions;

use lifeboat_web::Metrics;

pub(crate) use repositories::{RepositoryLabels, RepositoryValues};
pub(crate) use sessions::{EndedHost, EndedSession, EndedTarget, HostNumbers, SessionLabels};

use repositories::RepositoryMetrics;
use restores::RestoreMetrics;
use sessions::SessionMetrics;

/// Handles to the metrics of Stash's API; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct StashMetrics {
    pub(crate) repositories: RepositoryMetrics,
    pub(crate) sessions: SessionMetrics,
    pub(crate) restores: RestoreMetrics,
}

impl StashMetrics {
    pub(crate) fn register(metrics: &Metrics) -> Self {
        metrics.register(|registry| Self {
            repositories: RepositoryMetrics::register(registry),
            sessions: SessionMetrics::register(registry),
            restores: RestoreMetrics::register(registry),
        })
    }

    /// Removes the values, because this replica is no longer the leader.
    pub(crate) fn end_term(&self) {
        self.repositories.clear();
        self.sessions.clear();
        self.restores.clear();
    }
}
