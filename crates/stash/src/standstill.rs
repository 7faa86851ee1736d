//! Stops a workload for a restore into its volumes, and starts it again. [`Standstill::next`] decides the next action
//! from the record and the current state of the cluster; this module reads that state, writes the record before each
//! effect, and carries the effect out. After a crash the next server continues with the recorded step. Called by
//! restores, for each member whose target is a workload.

mod changes;
#[cfg(test)]
mod tests;
mod workload;

pub(crate) use workload::{Workload, earlier};

use std::time::Duration;

use async_trait::async_trait;
use lifeboat_cluster::ApiError;
use lifeboat_plan::stash::hosts::TargetKind;
use lifeboat_plan::stash::in_place::{Action, Standstill, StandstillFacts, Step, Work};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use changes::Changes;

/// How long pods may take to end beyond their own grace period.
const STOPPING: Duration = Duration::from_mins(5);

/// The restore that needs the workload to be stopped.
#[async_trait]
pub(crate) trait Restoring: Send + Sync {
    /// The record in the status of the restore. None if it no longer exists.
    async fn record(&self) -> Option<Standstill>;

    /// Writes the record into the status of the restore. False if the restore no longer exists.
    async fn write(&self, record: Standstill) -> Result<bool, ApiError>;

    /// The state of the movers of a step, from the record.
    async fn work(&self, step: Step) -> Work;

    /// Runs the movers of a step to their end; `cancel` ends them early.
    async fn run(&self, step: Step, cancel: &CancellationToken) -> Result<(), ApiError>;

    /// Records why movers were cancelled.
    async fn cancelled(&self, reason: &str) -> Result<(), ApiError>;

    /// Why the restore has to end: its deadline passed, or it was deleted.
    async fn give_up(&self) -> Option<String>;

    /// Fails if the record cannot be written at all, although no change of it is due.
    async fn is_writable(&self) -> Result<(), ApiError> {
        Ok(())
    }

    /// Records what the restore waits for.
    async fn waiting(&self, message: &str) -> Result<(), ApiError>;
}

/// How a standstill ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StandstillEnd {
    /// It is over; the failure, if the restore failed.
    Over { failure: Option<String> },
    /// The restore no longer exists, nor does its record.
    Gone,
}

/// Carries out a standstill, from the recorded step to its end. `pace`: the interval at which the state is read.
pub(crate) async fn carry_out(
    workload: &Workload<'_>,
    restore: &dyn Restoring,
    pace: Duration,
) -> Result<StandstillEnd, ApiError> {
    let began = Instant::now();
    let mut changes = Changes::new(workload, restore, pace);
    loop {
        let Some(record) = restore.record().await else { return Ok(StandstillEnd::Gone) };
        let mut seen = look(workload, restore, &record).await?;
        let is_stopping = record.step == Step::Stopping;
        let late = if is_stopping { late(workload, &record, &seen, began) } else { None };
        seen.give_up = seen.give_up.or_else(|| changes.refused.clone()).or(late);
        match record.next(&seen) {
            Action::Write(next) => {
                if changes.marks(&next).await? && !restore.write(*next).await? {
                    return gone(workload, &record).await;
                }
            }
            Action::Scale { replicas } => {
                if let Some(failed) = changes.scale(&record, replicas).await?
                    && !restore.write(failed).await?
                {
                    return gone(workload, &record).await;
                }
            }
            Action::Work => work(workload, restore, &record, pace).await?,
            Action::Cancel { reason } => cancel(restore, record.step, &reason).await?,
            Action::Wait { message } => changes.wait(&message).await?,
            Action::End { failure } => return Ok(StandstillEnd::Over { failure }),
        }
    }
}

/// The current state of the workload and of the movers of the current step.
async fn look(
    workload: &Workload<'_>,
    restore: &dyn Restoring,
    record: &Standstill,
) -> Result<StandstillFacts, ApiError> {
    Ok(StandstillFacts {
        workload: workload.scale_now().await?,
        users: workload.users().await?,
        work: restore.work(record.step).await,
        give_up: restore.give_up().await,
    })
}

/// Why the wait for pods that do not end is given up. The pods of a StatefulSet end one after the other.
fn late(
    workload: &Workload<'_>,
    record: &Standstill,
    seen: &StandstillFacts,
    began: Instant,
) -> Option<String> {
    let in_turn = if workload.target.kind == TargetKind::StatefulSet { record.replicas.max(1) } else { 1 };
    let limit = workload.grace.saturating_mul(in_turn).saturating_add(STOPPING);
    (!seen.users.is_empty() && began.elapsed() > limit).then(|| {
        let users: Vec<String> = seen.users.iter().map(ToString::to_string).collect();
        format!("{} did not end within {} seconds", users.join(", "), limit.as_secs())
    })
}

/// Runs the movers of a step, and cancels them if the workload is started in the meantime.
async fn work(
    workload: &Workload<'_>,
    restore: &dyn Restoring,
    record: &Standstill,
    pace: Duration,
) -> Result<(), ApiError> {
    let cancel = CancellationToken::new();
    let mut running = restore.run(record.step, &cancel);
    let reason = tokio::select! {
        ran = &mut running => {
            ran?;
            if matches!(restore.work(record.step).await, Work::NotBegun | Work::Running) {
                // The server is shutting down, no mover could be started now, or the end of one could not be recorded.
                restore.is_writable().await?;
                tokio::time::sleep(pace).await;
            }
            return Ok(());
        }
        reason = disturbance(workload, restore, record, pace) => reason,
    };
    cancel.cancel();
    running.await?;
    restore.cancelled(&reason).await
}

/// Completes when the movers of a step have to be cancelled, with the reason.
async fn disturbance(
    workload: &Workload<'_>,
    restore: &dyn Restoring,
    record: &Standstill,
    pace: Duration,
) -> String {
    loop {
        tokio::time::sleep(pace).await;
        match look(workload, restore, record).await {
            Ok(seen) => {
                let seen = StandstillFacts { work: Work::Running, ..seen };
                if let Action::Cancel { reason } = record.next(&seen) {
                    return reason;
                }
            }
            Err(error) => {
                tracing::debug!(error = error.chain(), "cannot look at a workload that is being restored");
            }
        }
    }
}

/// Ends movers that an earlier server started.
async fn cancel(restore: &dyn Restoring, step: Step, reason: &str) -> Result<(), ApiError> {
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    restore.run(step, &cancelled).await?;
    restore.cancelled(reason).await
}

/// The object of the restore was removed in spite of its finalizer. If nothing was written, the workload is started;
/// a workload with half-restored data stays stopped, which its annotation shows.
async fn gone(workload: &Workload<'_>, record: &Standstill) -> Result<StandstillEnd, ApiError> {
    if record.step < Step::Restoring {
        // A workload that an earlier restore left stopped stays stopped.
        if record.held_by.is_some() {
            return Ok(StandstillEnd::Gone);
        }
        let stopped = workload.scale_now().await?.is_some_and(|(uid, now)| uid == record.uid && now == 0);
        if stopped && record.replicas > 0 {
            workload.scale(record, record.replicas).await?;
        }
    } else if !record.step.is_end() {
        workload.mark(&record.removed()).await?;
    }
    Ok(StandstillEnd::Gone)
}
