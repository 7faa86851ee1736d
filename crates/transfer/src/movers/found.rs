//! Lists Jobs and Secrets of movers in all namespaces, by their labels. A server that may not list them in all
//! namespaces lists only those of the movers' own namespace.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lifeboat_cluster::ApiError;
use lifeboat_cluster::jobs::{self, FoundSecret};
use lifeboat_plan::transfer::movers::job;
use serde_json::Value;

use super::Movers;

/// Whether the limitation to the movers' namespace was already logged.
#[derive(Clone, Debug, Default)]
pub(super) struct Limited(Arc<AtomicBool>);

/// The Jobs that have our labels.
pub(super) struct FoundJobs {
    pub(super) jobs: Vec<Value>,
    /// None if all namespaces were listed.
    only_in: Option<String>,
}

impl FoundJobs {
    /// Whether the Jobs of this namespace were listed.
    pub(super) fn covers(&self, namespace: &str) -> bool {
        self.only_in.as_ref().is_none_or(|only| only == namespace)
    }
}

impl Movers {
    pub(super) async fn found_jobs(&self) -> Result<FoundJobs, ApiError> {
        let (client, selector) = (&self.core.client, job::selector(&self.core.namespace));
        match jobs::list(client, None, &selector).await {
            Err(error) if self.is_limited(&error) => {
                let own = &self.settings.namespace;
                let jobs = jobs::list(client, Some(own), &selector).await?;
                Ok(FoundJobs { jobs, only_in: Some(own.clone()) })
            }
            listed => Ok(FoundJobs { jobs: listed?, only_in: None }),
        }
    }

    pub(super) async fn found_secrets(&self) -> Result<Vec<FoundSecret>, ApiError> {
        let (client, selector) = (&self.core.client, job::selector(&self.core.namespace));
        match jobs::secrets(client, None, &selector).await {
            Err(error) if self.is_limited(&error) => {
                jobs::secrets(client, Some(&self.settings.namespace), &selector).await
            }
            listed => listed,
        }
    }

    /// Whether the server may not list in all namespaces. Logged once.
    fn is_limited(&self, error: &ApiError) -> bool {
        let is_limited = error.code() == Some(403);
        if is_limited && !self.limited.0.swap(true, Ordering::Relaxed) {
            tracing::info!(
                namespace = self.settings.namespace,
                reason = error.chain(),
                "movers are counted and swept in their own namespace only"
            );
        }
        is_limited
    }
}
