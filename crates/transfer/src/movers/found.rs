//! Jobs and Secrets of movers in all namespaces, by their labels. A server whose rights are limited to some namespaces may not
//! list them everywhere; then only the movers' own namespace is looked at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lifeboat_cluster::ApiError;
use lifeboat_cluster::jobs::{self, FoundSecret};
use lifeboat_plan::transfer::movers::job;
use serde_json::Value;

use super::Movers;

/// Whether the log says already that only the movers' namespace is looked at.
#[derive(Clone, Debug, Default)]
pub(super) struct Limited(Arc<AtomicBool>);

/// The Jobs that carry our labels.
pub(super) struct FoundJobs {
    pub(super) jobs: Vec<Value>,
    /// None where all namespaces were looked at.
    only_in: Option<String>,
}

impl FoundJobs {
    /// Whether the Jobs of a namespace are among them.
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

    /// Whether the server may not list in all namespaces. The log says so once.
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
