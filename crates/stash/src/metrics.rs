//! What Stash's API shows in `/metrics`: upstream's names, each in its older and its newer form, so that existing dashboards go on
//! working. Only a leader knows the values.

mod repositories;

use lifeboat_web::Metrics;

pub(crate) use repositories::{RepositoryLabels, RepositoryValues};

use repositories::RepositoryMetrics;

/// Handles to the metrics of Stash's API; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct StashMetrics {
    pub(crate) repositories: RepositoryMetrics,
}

impl StashMetrics {
    pub(crate) fn register(metrics: &Metrics) -> Self {
        metrics.register(|registry| Self { repositories: RepositoryMetrics::register(registry) })
    }

    /// This replica leads no more.
    pub(crate) fn end_term(&self) {
        self.repositories.clear();
    }
}
