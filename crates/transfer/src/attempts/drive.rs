//! The way from an open transfer to its end: prepare, reach the repository, put the attempt on record, send the mover, and
//! react to how it ended. What differs between kinds is in [`Steps`]. An error is the API's, and worth another try from the
//! beginning.

use async_trait::async_trait;
use lifeboat_cluster::ApiError;
use lifeboat_mover::report::{Cause, Outcome};
use lifeboat_plan::transfer::attempts::{Died, Next, next};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::observer::RecordingObserver;
use super::transfer::is_refusal;
use super::{End, NotPrepared, Prepared, Transfer};
use crate::movers::{Death, DeathCause, Ended};

const CANCELLED: &str = "it was cancelled";

/// The steps of a transfer that differ between kinds.
#[async_trait]
pub trait Steps: Send + Sync {
    fn transfer(&self) -> &Transfer;

    /// Before anything else: true where no mover is needed to bring the object to its end, and that was done.
    async fn settled(&self, _cancel: &CancellationToken) -> Result<bool, ApiError> {
        Ok(false)
    }

    /// What the mover of this attempt is sent for, or why none can be sent.
    async fn prepare(&self, cancel: &CancellationToken) -> Result<Prepared, NotPrepared>;

    /// The mover reported that it did its steps. Of a task with several parts some may have failed; the outcome has all
    /// of them.
    async fn done(&self, outcome: Outcome) -> Result<(), ApiError>;

    /// The mover did not report that it did its work; it may have done it all the same. `message` is the reason.
    async fn unreported(&self, message: &str) -> Result<(), ApiError>;

    /// Whether it is certain that a mover that died had not done its steps.
    async fn is_undone(&self) -> bool {
        true
    }

    /// Why a mover that may still be at work is not followed by another, where it writes into a volume.
    fn alone(&self) -> Option<&'static str> {
        None
    }

    /// The owner of a volume that a mover did not find, for people.
    fn whose(&self) -> Option<String> {
        None
    }

    /// Adds to the message about a mover that died what else is known.
    async fn complaint(&self, message: String) -> String {
        message
    }

    /// The mover of this attempt is gone, and another attempt follows.
    async fn discard(&self) -> Result<(), ApiError> {
        Ok(())
    }

    /// Removes all that was made for the transfer. Gives what stays, for people; empty where nothing does.
    async fn clean(&self) -> Result<String, ApiError>;

    /// What happens to a pod that waits for data which does not come.
    fn stays(&self) -> &'static str {
        ""
    }

    /// The end that is on record though it is not written yet, in the record's own form.
    async fn recorded(&self) -> Result<Option<Value>, ApiError> {
        Ok(None)
    }

    /// Writes the end. `is_clean`: nothing of the transfer stays in the repository.
    async fn write_end(&self, end: End<'_>, _is_clean: bool) -> Result<bool, ApiError> {
        self.transfer().record.end(end).await
    }
}

/// Brings the transfer to its end.
pub async fn carry(steps: &dyn Steps, cancel: &CancellationToken) -> Result<(), ApiError> {
    match attempts(steps, cancel).await {
        Err(error) if steps.transfer().is_hopeless(&error) => give_up(steps, &error).await,
        ended => ended,
    }
}

async fn attempts(steps: &dyn Steps, cancel: &CancellationToken) -> Result<(), ApiError> {
    let transfer = steps.transfer();
    let mut dead = transfer.dead_owners.clone();
    if steps.settled(cancel).await? {
        return Ok(());
    }
    loop {
        if cancel.is_cancelled() {
            return cancelled(steps, CANCELLED).await;
        }
        let prepared = match steps.prepare(cancel).await {
            Ok(prepared) => prepared,
            Err(NotPrepared::Because(_)) if cancel.is_cancelled() => {
                return cancelled(steps, CANCELLED).await;
            }
            Err(NotPrepared::Because(message)) => return unprepared(steps, &message).await,
            Err(NotPrepared::Api(error)) if is_refusal(&error) => {
                return unprepared(steps, &error.chain()).await;
            }
            Err(NotPrepared::Api(error)) => return Err(error),
        };
        let reach = match transfer.reach(cancel).await {
            Ok(reach) => reach,
            Err(_) if cancel.is_cancelled() => return cancelled(steps, CANCELLED).await,
            Err(unusable) => return failed(steps, &unusable.message).await,
        };
        // The attempt is on record before anything of it exists.
        if !transfer.accept(&reach, &prepared).await? {
            return steps.clean().await.map(drop);
        }
        let request = transfer.request(&dead, reach, prepared);
        let observer = RecordingObserver::new(transfer);
        match transfer.work.effects.carry_out(request, &observer, cancel).await? {
            Ended::Left => return Ok(()),
            Ended::Cancelled { dead_owner, is_over } => {
                transfer.set_at_large(!is_over);
                transfer.unlock(dead_owner.as_deref()).await;
                return cancelled(steps, CANCELLED).await;
            }
            Ended::Reported { result, dead_owner } => {
                transfer.set_at_large(false);
                // A mover that failed may not have reached its lock to remove it.
                if has_failed(&result.outcome) {
                    transfer.unlock(dead_owner.as_deref()).await;
                }
                return reported(steps, result.outcome, cancel).await;
            }
            Ended::Died(death) => {
                if !follow(steps, death, &mut dead, cancel).await? {
                    return Ok(());
                }
            }
        }
    }
}

/// No mover can be sent any more; that of an earlier server may have done it before.
async fn unprepared(steps: &dyn Steps, message: &str) -> Result<(), ApiError> {
    if steps.transfer().has_begun() { steps.unreported(message).await } else { failed(steps, message).await }
}

async fn reported(steps: &dyn Steps, outcome: Outcome, cancel: &CancellationToken) -> Result<(), ApiError> {
    match outcome {
        Outcome::Restored(restored) if restored.failed.count > 0 => {
            let (count, first) = (restored.failed.count, restored.failed.first.join(", "));
            failed(steps, &format!("{count} files could not be restored ({first}){}", steps.stays())).await
        }
        Outcome::Restored(_) => steps.done(outcome).await,
        Outcome::Parts(ref results) if results.parts.iter().any(|part| is_restore(&part.outcome)) => {
            steps.done(outcome).await
        }
        // A volume that was filled is; a copy that nobody wants goes.
        _ if cancel.is_cancelled() => cancelled(steps, CANCELLED).await,
        Outcome::Failed(failure) if failure.cause == Cause::Deadline => {
            steps.unreported(&steps.transfer().late()).await
        }
        Outcome::Failed(failure) if failure.cause == Cause::WrongVolume => {
            let whose = steps.whose().map(|whose| format!("{whose}: ")).unwrap_or_default();
            steps.unreported(&format!("{whose}{}", failure.message)).await
        }
        Outcome::Failed(failure) => steps.unreported(&failure.message).await,
        outcome => steps.done(outcome).await,
    }
}

/// Whether the task, or a part of it, failed.
fn has_failed(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Failed(_) => true,
        Outcome::Parts(_) => !outcome.is_done(),
        _ => false,
    }
}

fn is_restore(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Restored(_))
}

/// A mover died. True where another attempt follows; else the object is at its end.
async fn follow(
    steps: &dyn Steps,
    death: Death,
    dead: &mut Vec<String>,
    cancel: &CancellationToken,
) -> Result<bool, ApiError> {
    let transfer = steps.transfer();
    // Also before another attempt, which takes a lock beside it.
    transfer.unlock(death.dead_owner.as_deref()).await;
    let is_over =
        death.dead_owner.is_some() || matches!(death.cause, DeathCause::Unschedulable | DeathCause::Refused);
    transfer.set_at_large(!is_over);
    if cancel.is_cancelled() {
        return cancelled(steps, CANCELLED).await.map(|()| false);
    }
    let died = Died {
        attempt: transfer.attempt(),
        may_retry: death.may_retry,
        is_over,
        writes: steps.alone().is_some(),
        is_undone: steps.is_undone().await,
    };
    match next(died) {
        Next::Again => {}
        Next::Nothing => {
            let message = steps.complaint(death.message).await;
            return steps.unreported(&message).await.map(|()| false);
        }
        Next::NothingBeside => {
            let why = steps.alone().unwrap_or_default();
            let message = format!("{}; it is not tried again, because {why}", death.message);
            return steps.unreported(&message).await.map(|()| false);
        }
    }
    dead.extend(death.dead_owner);
    transfer.give_up().await;
    if !transfer.record.again(transfer.attempt() + 1, dead, &death.message).await? {
        return steps.clean().await.map(|_| false);
    }
    transfer.record.warn("Retried", &death.message).await;
    transfer.work.effects.clear(&transfer.namespace, &transfer.task()).await?;
    steps.discard().await?;
    transfer.set_attempt(transfer.attempt() + 1);
    Ok(true)
}

/// Nothing of the transfer can be used.
pub async fn failed(steps: &dyn Steps, message: &str) -> Result<(), ApiError> {
    let (transfer, left) = (steps.transfer(), steps.clean().await?);
    let message = format!("{message}{left}");
    transfer.give_up().await;
    steps.write_end(End::Failed(&message), left.is_empty()).await?;
    transfer.record.warn("Failed", &message).await;
    Ok(())
}

pub async fn cancelled(steps: &dyn Steps, message: &str) -> Result<(), ApiError> {
    let (transfer, left) = (steps.transfer(), steps.clean().await?);
    let message = format!("{message}{}{left}", steps.stays());
    transfer.give_up().await;
    steps.write_end(End::Cancelled(&message), left.is_empty()).await.map(drop)
}

/// The mover reported another kind of work than it was sent for.
pub async fn misunderstood(steps: &dyn Steps, outcome: &Outcome) -> Result<(), ApiError> {
    failed(steps, &format!("the mover answered another question: {outcome:?}")).await
}

/// The end is written although not all could be removed, which no server can do. Work that is on record is done.
async fn give_up(steps: &dyn Steps, error: &ApiError) -> Result<(), ApiError> {
    let transfer = steps.transfer();
    let mut message = format!("{}; what was made for it may be left behind", error.chain());
    let written = if let Some(end) = steps.recorded().await? {
        transfer.record.warn("NotCleared", &message).await;
        steps.write_end(End::Recorded(&end), false).await
    } else {
        // What can be removed is removed.
        message.push_str(&steps.clean().await.unwrap_or_default());
        transfer.give_up().await;
        transfer.record.warn("Failed", &message).await;
        steps.write_end(End::Failed(&message), false).await
    };
    match written {
        Err(error) if !transfer.is_hopeless(&error) || error.is_transient() => Err(error),
        _ => Ok(()),
    }
}
