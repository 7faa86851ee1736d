//! Removes what interrupted servers left: Jobs for objects that are gone or have ended, and Secrets without a Job.
//! Runs with the controllers: when a term begins and every ten minutes, and every 30 seconds as long as a Job exists that
//! the term began with: the server before this one may have died between the record of a result and the deletion of
//! its Job. Jobs that were not adopted are recounted as often.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::SignedDuration;
use lifeboat_cluster::ApiError;
use lifeboat_cluster::jobs::FoundSecret;
use lifeboat_plan::json::text;
use lifeboat_plan::transfer::movers::job;
use lifeboat_web::Outcome;
use serde_json::Value;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Movers, TaskState, clear};

/// How often Jobs that were not adopted are counted again.
const RECOUNT: Duration = Duration::from_secs(30);
/// How many counts there are between two sweeps.
const SWEEP: u32 = 20;
/// A Secret gets its Job at once; one without a Job for this long was left by an interrupted server.
const LEFT: SignedDuration = SignedDuration::from_mins(10);

/// Namespace and name of a Job.
type JobKey = (String, String);

impl Movers {
    /// Sweeps and counts until `shutdown` is cancelled.
    pub(crate) async fn run(&self, shutdown: &CancellationToken) {
        if self.settings.image.is_empty() {
            return;
        }
        // The Jobs of earlier terms that still exist; None before the first sweep.
        let mut earlier: Option<BTreeSet<JobKey>> = None;
        for round in 0_u32.. {
            let work = async {
                if round.is_multiple_of(SWEEP) || earlier.as_ref().is_none_or(|jobs| !jobs.is_empty()) {
                    self.sweep_earlier(&mut earlier).await;
                }
                warn(self.recount().await, "cannot count movers; trying again later");
                sleep(RECOUNT).await;
            };
            if shutdown.run_until_cancelled(work).await.is_none() {
                return;
            }
        }
    }

    /// Sweeps, and takes what is gone from the Jobs of earlier terms. A failure is only logged.
    async fn sweep_earlier(&self, earlier: &mut Option<BTreeSet<JobKey>>) {
        let swept = self.sweep().await;
        self.core.metrics.count_sweep("movers", Outcome::of(&swept, ApiError::category));
        match swept {
            Ok(kept) => {
                *earlier = Some(match earlier.take() {
                    Some(known) => known.intersection(&kept).cloned().collect(),
                    None => kept,
                });
            }
            error => warn(error.map(drop), "cannot remove what is left of movers; trying again later"),
        }
    }

    /// Removes the Jobs and Secrets of tasks that are over; returns the other Jobs.
    pub(super) async fn sweep(&self) -> Result<BTreeSet<JobKey>, ApiError> {
        // Secrets are listed first, so that the Job of every listed Secret is found if it exists.
        let secrets = self.found_secrets().await?;
        let found = self.found_jobs().await?;
        let kept = self.sweep_jobs(&found.jobs).await?;
        let has_job = |secret: &FoundSecret| kept.contains(&(secret.namespace.clone(), secret.name.clone()));
        let without_job =
            secrets.into_iter().filter(|secret| found.covers(&secret.namespace) && !has_job(secret));
        self.sweep_secrets(without_job).await?;
        Ok(kept)
    }

    /// Ends and removes the movers of an object whose record cannot be changed any more, although it says that they are needed.
    pub async fn end_all_of(&self, owner: &str) -> Result<(), ApiError> {
        for object in &self.found_jobs().await?.jobs {
            let Some(made) = job::read(object).filter(|made| made.owner.uid == owner) else { continue };
            if self.is_ours(object).await? {
                clear(&self.jobs(made.namespace.as_str()), text(object, "/metadata/name")).await?;
            }
        }
        Ok(())
    }

    /// Removes the Jobs of tasks that are over: those of earlier attempts, and of objects that have ended or are gone. Returns the others. A
    /// Job whose owner's kind this server does not know is kept.
    async fn sweep_jobs(&self, jobs: &[Value]) -> Result<BTreeSet<JobKey>, ApiError> {
        let mut kept = BTreeSet::new();
        for (object, made) in jobs.iter().filter_map(|object| Some((object, job::read(object)?))) {
            let (namespace, name) = (made.namespace.as_str(), text(object, "/metadata/name"));
            if self.state(&made).await? == TaskState::Over {
                let owner = &made.owner.name;
                tracing::info!(namespace, job = name, owner, "removing the mover of a task that is over");
                clear(&self.jobs(namespace), name).await?;
            } else {
                kept.insert((namespace.to_owned(), name.to_owned()));
            }
        }
        Ok(kept)
    }

    /// Removes those of these Secrets that an interrupted server left.
    async fn sweep_secrets(&self, without_job: impl Iterator<Item = FoundSecret>) -> Result<(), ApiError> {
        let before = self.core.now() - LEFT;
        for secret in without_job {
            let is_old = secret.created.is_some_and(|created| created < before);
            if is_old && self.was_left(&secret).await? {
                self.jobs(&secret.namespace).delete_secret(&secret.name).await?;
            }
        }
        Ok(())
    }

    /// Whether an interrupted server left this Secret, which has no Job. In the movers' own namespace only Lifeboat
    /// creates Secrets; elsewhere labels are no proof, and the task that the Secret names must be over.
    async fn was_left(&self, secret: &FoundSecret) -> Result<bool, ApiError> {
        if secret.namespace == self.settings.namespace {
            return Ok(true);
        }
        match job::read(&secret.object) {
            Some(made) if job::name(&made.candidate.task) == secret.name => {
                Ok(self.state(&made).await? == TaskState::Over)
            }
            _ => Ok(false),
        }
    }
}

fn warn(outcome: Result<(), ApiError>, message: &str) {
    if let Err(error) = outcome {
        tracing::warn!(error = error.chain(), "{message}");
    }
}
