//! What interrupted servers left: Jobs for objects that are gone or have ended, Secrets without a Job. Looked for when a
//! term begins and every ten minutes; Jobs that were not adopted are counted again more often. Run with the controllers.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::SignedDuration;
use lifeboat_cluster::ApiError;
use lifeboat_plan::transfer::movers::job;
use serde_json::Value;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Movers, TaskState, clear};

/// How often Jobs that were not adopted are counted again.
const RECOUNT: Duration = Duration::from_secs(30);
/// How many counts there are between two sweeps.
const SWEEP: u32 = 20;
/// A Secret gets its Job at once; one that has none for so long was left.
const LEFT: SignedDuration = SignedDuration::from_mins(10);

impl Movers {
    /// Sweeps and counts until `shutdown` is cancelled.
    pub async fn run(&self, shutdown: &CancellationToken) {
        if self.settings.image.is_empty() {
            return;
        }
        for round in 0_u32.. {
            let work = async {
                if round.is_multiple_of(SWEEP) {
                    warn(self.sweep().await, "cannot remove what is left of movers; trying again later");
                }
                warn(self.recount().await, "cannot count movers; trying again later");
                sleep(RECOUNT).await;
            };
            if shutdown.run_until_cancelled(work).await.is_none() {
                return;
            }
        }
    }

    /// The Jobs that carry our labels, in all namespaces in which movers run.
    pub(super) async fn listed(&self) -> Result<Vec<Value>, ApiError> {
        let selector = job::selector(&self.core.namespace);
        let mut found = Vec::new();
        for namespace in self.namespaces() {
            found.extend(self.jobs(&namespace).list(&selector).await?);
        }
        Ok(found)
    }

    /// Removes the Jobs and Secrets of tasks that are over.
    pub(super) async fn sweep(&self) -> Result<(), ApiError> {
        for namespace in self.namespaces() {
            self.sweep_namespace(&namespace).await?;
        }
        Ok(())
    }

    async fn sweep_namespace(&self, namespace: &str) -> Result<(), ApiError> {
        let jobs = self.jobs(namespace);
        // Secrets first: a Job that comes between the two looks is one more, not one less.
        let selector = job::selector(&self.core.namespace);
        let secrets = jobs.secrets(&selector).await?;
        let found = jobs.list(&selector).await?;
        let mut kept = BTreeSet::new();
        for (object, made) in found.iter().filter_map(|object| Some((object, job::read(object)?))) {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            // Of a kind that this server does not know it cannot say whether the mover is needed.
            if self.records.state(&made.owner, &made.candidate.uid).await? == TaskState::Over {
                let owner = made.owner.name;
                tracing::info!(namespace, job = name, owner, "removing the mover of a task that is over");
                clear(&jobs, name).await?;
            } else {
                kept.insert(name.to_owned());
            }
        }
        let before = self.core.now() - LEFT;
        for (name, created) in secrets {
            if !kept.contains(&name) && created.is_some_and(|created| created < before) {
                jobs.delete_secret(&name).await?;
            }
        }
        Ok(())
    }
}

fn warn(outcome: Result<(), ApiError>, message: &str) {
    if let Err(error) = outcome {
        tracing::warn!(error = error.chain(), "{message}");
    }
}
