//! Drives an open transfer to its end: prepare, open the repository, record the attempt, run the mover, and react to
//! how the mover ended. What differs between kinds is in [`Steps`]. An error returned from here is an API error; the
//! caller starts again from the beginning.

use async_trait::async_trait;
use lifeboat_cluster::ApiError;
use lifeboat_mover::report::{Cause, Outcome};
use lifeboat_plan::transfer::attempts::{Died, Next, next};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::observer::RecordingObserver;
use super::transfer::is_refusal;
use super::{End, NotPrepared, Prepared, Transfer};
use crate::movers::{Death, DeathCause, MoverEnd};

const CANCELLED: &str = "it was cancelled";

/// The steps of a transfer that differ between kinds.
#[async_trait]
pub trait Steps: Send + Sync {
    fn transfer(&self) -> &Transfer;

    /// Called first. True if the object reached its end without a mover.
    async fn settled(&self, _cancel: &CancellationToken) -> Result<bool, ApiError> {
        Ok(false)
    }

    /// Prepares the volume and the task for the mover of this attempt, or gives the reason why no mover can be
    /// started.
    async fn prepare(&self, cancel: &CancellationToken) -> Result<Prepared, NotPrepared>;

    /// Called when the mover reported success. `outcome` has all parts of the task; some of several parts may have failed.
    async fn done(&self, outcome: Outcome) -> Result<(), ApiError>;

    /// Called when the mover did not report success, although it may have finished its work. `message` is the reason.
    async fn unreported(&self, message: &str) -> Result<(), ApiError>;

    /// Called when the mover reported that what should be restored does not exist, so that nothing was written.
    async fn not_stored(&self, message: &str) -> Result<(), ApiError> {
        self.unreported(message).await
    }

    /// Whether it is certain that a mover that died had not finished its work.
    async fn is_undone(&self) -> bool {
        true
    }

    /// Whether another mover may follow one that never started, because the pod that uses the volume is no longer on
    /// the node of that mover.
    async fn has_moved(&self, _death: &Death) -> bool {
        false
    }

    /// Why no second mover may start while the first one may still run: set where movers write into a volume.
    fn sole_writer_reason(&self) -> Option<&'static str> {
        None
    }

    /// The pod or claim whose volume a mover did not find, for people.
    fn volume_owner(&self) -> Option<String> {
        None
    }

    /// Adds further known details, such as a provisioner's last event, to the message about a mover that died.
    async fn complaint(&self, message: String) -> String {
        message
    }

    /// Removes what the mover of a failed attempt left, before the next attempt starts.
    async fn discard(&self) -> Result<(), ApiError> {
        Ok(())
    }

    /// Removes everything that was made for the transfer. Returns a text about what could not be removed; empty if
    /// everything was.
    async fn clean(&self) -> Result<String, ApiError>;

    /// What happens to a pod that waits for data that will not arrive; appended to messages.
    fn pod_consequence(&self) -> &'static str {
        ""
    }

    /// An end that is recorded in the object but not yet written as its final phase, in the record's own form.
    async fn recorded(&self) -> Result<Option<Value>, ApiError> {
        Ok(None)
    }

    /// Writes the final phase. `is_clean`: no snapshot of the transfer is left in the repository.
    async fn write_end(&self, end: End<'_>, _is_clean: bool) -> Result<bool, ApiError> {
        self.transfer().record.end(end).await
    }
}

/// Runs the transfer to its end.
pub async fn run_transfer(steps: &dyn Steps, cancel: &CancellationToken) -> Result<(), ApiError> {
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
        // The attempt is recorded before its Job or Secret exists.
        if !transfer.accept(&reach, &prepared).await? {
            return steps.clean().await.map(drop);
        }
        let request = transfer.request(&dead, reach, prepared);
        let observer = RecordingObserver::new(transfer);
        match transfer.work.effects.carry_out(request, &observer, cancel).await? {
            MoverEnd::Left => return Ok(()),
            MoverEnd::Cancelled { dead_owner, is_over } => {
                transfer.set_may_still_run(!is_over);
                transfer.unlock(dead_owner.as_deref()).await;
                return cancelled(steps, CANCELLED).await;
            }
            MoverEnd::Reported { result, dead_owner } => {
                transfer.set_may_still_run(false);
                // A mover that failed may have been unable to remove its lock.
                if has_failed(&result.outcome) {
                    transfer.unlock(dead_owner.as_deref()).await;
                }
                return reported(steps, result.outcome, cancel).await;
            }
            MoverEnd::Died(death) => {
                if !follow(steps, death, &mut dead, cancel).await? {
                    return Ok(());
                }
            }
        }
    }
}

/// Called when no mover can be started. The mover of an earlier server may have finished the work.
async fn unprepared(steps: &dyn Steps, message: &str) -> Result<(), ApiError> {
    if steps.transfer().has_begun() { steps.unreported(message).await } else { failed(steps, message).await }
}

async fn reported(steps: &dyn Steps, outcome: Outcome, cancel: &CancellationToken) -> Result<(), ApiError> {
    match outcome {
        Outcome::Restored(restored) if restored.failed.count > 0 => {
            let (count, first) = (restored.failed.count, restored.failed.first.join(", "));
            failed(
                steps,
                &format!("{count} files could not be restored ({first}){}", steps.pod_consequence()),
            )
            .await
        }
        Outcome::Restored(_) => steps.done(outcome).await,
        Outcome::Parts(ref results) if results.parts.iter().any(|part| is_restore(&part.outcome)) => {
            steps.done(outcome).await
        }
        // A cancelled restore that filled its volume still counts; the snapshot of a cancelled backup is forgotten.
        _ if cancel.is_cancelled() => cancelled(steps, CANCELLED).await,
        Outcome::Failed(failure) if failure.cause == Cause::Deadline => {
            steps.unreported(&steps.transfer().late()).await
        }
        Outcome::Failed(failure) if failure.cause == Cause::WrongVolume => {
            let owner = steps.volume_owner().map(|owner| format!("{owner}: ")).unwrap_or_default();
            steps.unreported(&format!("{owner}{}", failure.message)).await
        }
        Outcome::Failed(failure) if failure.cause == Cause::NotStored => {
            steps.not_stored(&failure.message).await
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

/// Reacts to the death of a mover. True if another attempt follows; otherwise the object has reached its end.
async fn follow(
    steps: &dyn Steps,
    death: Death,
    dead: &mut Vec<String>,
    cancel: &CancellationToken,
) -> Result<bool, ApiError> {
    let transfer = steps.transfer();
    // Locks of the dead mover are removed also if another attempt follows, because that attempt takes its own lock.
    transfer.unlock(death.dead_owner.as_deref()).await;
    let is_over =
        death.dead_owner.is_some() || matches!(death.cause, DeathCause::Unschedulable | DeathCause::Refused);
    transfer.set_may_still_run(!is_over);
    if cancel.is_cancelled() {
        return cancelled(steps, CANCELLED).await.map(|()| false);
    }
    let died = Died {
        attempt: transfer.attempt(),
        may_retry: death.may_retry || steps.has_moved(&death).await,
        is_over,
        writes: steps.sole_writer_reason().is_some(),
        is_undone: steps.is_undone().await,
    };
    match next(died) {
        Next::Again => {}
        Next::Nothing => {
            let is_late = death.cause == DeathCause::Deadline;
            let message = if is_late { transfer.late() } else { steps.complaint(death.message).await };
            return steps.unreported(&message).await.map(|()| false);
        }
        Next::NothingBeside => {
            let why = steps.sole_writer_reason().unwrap_or_default();
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

/// Ends the transfer as failed and removes what it made.
pub async fn failed(steps: &dyn Steps, message: &str) -> Result<(), ApiError> {
    let (transfer, left) = (steps.transfer(), steps.clean().await?);
    let message = format!("{message}{left}");
    transfer.give_up().await;
    steps.write_end(End::Failed(&message), left.is_empty()).await?;
    transfer.record.warn("Failed", &message).await;
    Ok(())
}

/// Ends the transfer as cancelled and removes what it made.
pub async fn cancelled(steps: &dyn Steps, message: &str) -> Result<(), ApiError> {
    let (transfer, left) = (steps.transfer(), steps.clean().await?);
    let message = format!("{message}{}{left}", steps.pod_consequence());
    transfer.give_up().await;
    steps.write_end(End::Cancelled(&message), left.is_empty()).await.map(drop)
}

/// Fails the transfer because the mover reported the result of another kind of task.
pub async fn wrong_result(steps: &dyn Steps, outcome: &Outcome) -> Result<(), ApiError> {
    failed(steps, &format!("the mover reported the result of another kind of task: {outcome:?}")).await
}

/// Writes the end although some objects could not be removed, because no server is allowed to remove them. A result
/// that is already recorded stays a success.
async fn give_up(steps: &dyn Steps, error: &ApiError) -> Result<(), ApiError> {
    let transfer = steps.transfer();
    let mut message =
        format!("{}; objects that were made for the transfer may be left behind", error.chain());
    let written = if let Some(end) = steps.recorded().await? {
        transfer.record.warn("NotCleared", &message).await;
        steps.write_end(End::Recorded(&end), false).await
    } else {
        // Remove as much as possible.
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
