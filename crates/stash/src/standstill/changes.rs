//! Changes of the workload during a standstill, and what follows if the API server does not carry them out: it refuses them, or a webhook of
//! the cluster does not answer. Every one of them is given up at some time, because a restore has to end, and says then how to go on.

use std::time::Duration;

use lifeboat_cluster::ApiError;
use lifeboat_plan::stash::in_place::{Standstill, Step};
use tokio::time::sleep;

use super::Restoring;
use super::workload::{Scaled, Workload};
use crate::patience::{Patience, is_refusal, is_webhook};

/// How often the start of a workload may be refused.
const STARTS: u32 = 60;

/// The changes of one standstill.
pub(super) struct Changes<'a> {
    workload: &'a Workload<'a>,
    restore: &'a dyn Restoring,
    pace: Duration,
    /// Why the restore is given up before it has written anything.
    pub(super) refused: Option<String>,
    refused_starts: u32,
    webhooks: Patience,
}

/// What became of a change.
enum Changed<T> {
    Done(T),
    /// It is tried again.
    Later,
    /// It is given up, for this reason.
    Never(String),
}

impl<'a> Changes<'a> {
    pub(super) fn new(workload: &'a Workload<'a>, restore: &'a dyn Restoring, pace: Duration) -> Self {
        let webhooks = Patience::new(workload.webhooks);
        Self { workload, restore, pace, refused: None, refused_starts: 0, webhooks }
    }

    /// Shows what the restore waits for, and waits.
    pub(super) async fn wait(&self, message: &str) -> Result<(), ApiError> {
        self.restore.waiting(message).await?;
        sleep(self.pace).await;
        Ok(())
    }

    /// Writes a record that is about to be the restore's onto the workload as well. False if the restore must not go on to that step yet, or
    /// never.
    pub(super) async fn marks(&mut self, next: &Standstill) -> Result<bool, ApiError> {
        let marked = self.workload.mark(next).await;
        match self.judged(marked).await? {
            Changed::Done(()) => Ok(true),
            Changed::Later => Ok(false),
            // Without its record, a workload whose restore vanishes would look as if its data were whole.
            Changed::Never(why) if next.step == Step::Restoring => {
                self.refused = Some(next.not_stopped(&why));
                Ok(false)
            }
            // The workload keeps the record that it has: one that failed says enough, and one that runs is not looked at for it.
            Changed::Never(why) => {
                tracing::warn!(
                    workload = next.name,
                    why,
                    "a workload does not carry the record of its restore"
                );
                Ok(true)
            }
        }
    }

    /// Sets the scale. If the workload can never be started, gives the record of that.
    pub(super) async fn scale(
        &mut self,
        record: &Standstill,
        replicas: u32,
    ) -> Result<Option<Standstill>, ApiError> {
        let is_stopping = record.step == Step::Stopping;
        let scaled = self.workload.scale(record, replicas).await;
        let why = match self.judged(scaled).await? {
            Changed::Done(Scaled::Yes) | Changed::Later => return Ok(None),
            Changed::Done(Scaled::Refused(message)) if is_stopping => {
                self.refused = Some(message);
                return Ok(None);
            }
            Changed::Done(Scaled::Refused(message)) if self.refused_starts < STARTS => {
                self.refused_starts += 1;
                self.wait(&message).await?;
                return Ok(None);
            }
            Changed::Done(Scaled::Refused(message)) => message,
            Changed::Never(why) if is_stopping => {
                self.refused = Some(record.not_stopped(&why));
                return Ok(None);
            }
            Changed::Never(why) => why,
        };
        // The workload keeps the record that it carries: this one would be refused as well.
        Ok(Some(record.not_started(&why)))
    }

    /// Waits for a webhook that does not answer, for a time. An error is for the next try of the whole restore.
    async fn judged<T>(&mut self, changed: Result<T, ApiError>) -> Result<Changed<T>, ApiError> {
        match changed {
            Ok(done) => {
                self.webhooks.succeeded();
                Ok(Changed::Done(done))
            }
            Err(error) if is_refusal(&error) => Ok(Changed::Never(error.chain())),
            Err(error) if !is_webhook(&error) => Err(error),
            Err(error) if self.webhooks.is_over() => {
                let why = self.webhooks.given_up(&error).to_string();
                // What follows, such as the start of the workload, has as much time again.
                self.webhooks.succeeded();
                Ok(Changed::Never(why))
            }
            Err(error) => {
                self.wait(&format!("{}; it is tried again", error.chain())).await?;
                Ok(Changed::Later)
            }
        }
    }
}
