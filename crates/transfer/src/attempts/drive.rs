//! The way from an open object to its end: prepare, reach the repository, put the attempt on record, send the mover, and
//! react on how it ended. Each kind says by [`Work`] what it does in its own way. An error is the API's, and worth another
//! try from the beginning.

use async_trait::async_trait;
use lifeboat_cluster::ApiError;
use lifeboat_mover::report::{Cause, Outcome};
use lifeboat_plan::pod_volumes::{Died, Next, next, status};
use lifeboat_transfer::movers::{Death, DeathCause, Ended};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::case::is_refusal;
use super::shown::Shown;
use super::{Case, Mission, Trouble};

const CANCELLED: &str = "it was cancelled";

/// What a kind does in its own way.
#[async_trait]
pub(crate) trait Work: Send + Sync {
    fn case(&self) -> &Case;

    /// Before anything else: true where no mover is needed to bring the object to its end, and that was done.
    async fn settled(&self, _cancel: &CancellationToken) -> Result<bool, ApiError> {
        Ok(false)
    }

    /// What the mover of this attempt is sent for. Words say why none can be sent.
    async fn prepare(&self, cancel: &CancellationToken) -> Result<Mission, Trouble>;

    /// The mover says that it did its work.
    async fn done(&self, outcome: Outcome) -> Result<(), ApiError>;

    /// Nobody says that the work was done, and why: it may have been all the same.
    async fn unheard(&self, words: &str) -> Result<(), ApiError>;

    /// Whether it is certain that a mover that died had not done its work.
    async fn is_undone(&self) -> bool {
        true
    }

    /// Why a mover that may still be at work is not followed by another, where it writes into a volume.
    fn alone(&self) -> Option<&'static str> {
        None
    }

    /// Whose volume a mover did not find, as people call it.
    fn whose(&self) -> Option<String> {
        None
    }

    /// What else is known of a mover that died, after these words.
    async fn complaint(&self, words: String) -> String {
        words
    }

    /// The mover of this attempt is gone, and another attempt follows.
    async fn discard(&self) -> Result<(), ApiError> {
        Ok(())
    }

    /// Takes away all that was made. Gives what stays, in words.
    async fn clean(&self) -> Result<String, ApiError>;

    /// What happens to whoever waits for data that does not come.
    fn stays(&self) -> &'static str {
        ""
    }

    /// The end that is on record though it is not written yet.
    async fn recorded(&self) -> Result<Option<Value>, ApiError> {
        Ok(None)
    }

    /// What else the patch of an end holds. `is_clean`: nothing of it stays in the repository.
    fn complete(&self, _end: &mut Value, _is_clean: bool) {}
}

/// Carries the object to its end.
pub(crate) async fn carry(work: &dyn Work, cancel: &CancellationToken) -> Result<(), ApiError> {
    match attempts(work, cancel).await {
        Err(error) if work.case().is_hopeless(&error) => give_up(work, &error).await,
        ended => ended,
    }
}

async fn attempts(work: &dyn Work, cancel: &CancellationToken) -> Result<(), ApiError> {
    let case = work.case();
    let mut dead = case.dead.clone();
    if work.settled(cancel).await? {
        return Ok(());
    }
    loop {
        if cancel.is_cancelled() {
            return cancelled(work, CANCELLED).await;
        }
        let mission = match work.prepare(cancel).await {
            Ok(mission) => mission,
            Err(Trouble::Words(_)) if cancel.is_cancelled() => return cancelled(work, CANCELLED).await,
            Err(Trouble::Words(words)) => return unprepared(work, &words).await,
            Err(Trouble::Api(error)) if is_refusal(&error) => return unprepared(work, &error.chain()).await,
            Err(Trouble::Api(error)) => return Err(error),
        };
        let reach = match case.reach(cancel).await {
            Ok(reach) => reach,
            Err(_) if cancel.is_cancelled() => return cancelled(work, CANCELLED).await,
            Err(words) => return failed(work, &words).await,
        };
        // The attempt is on record before anything of it exists.
        if !case.accept(&reach, &mission).await? {
            return work.clean().await.map(drop);
        }
        let assignment = case.assignment(&dead, reach, mission);
        let shown = Shown::new(case);
        match case.desk.hands.carry_out(assignment, &shown, cancel).await? {
            Ended::Left => return Ok(()),
            Ended::Cancelled { dead_owner, is_over } => {
                case.set_at_large(!is_over);
                case.unlock(dead_owner.as_deref()).await;
                return cancelled(work, CANCELLED).await;
            }
            Ended::Told { result, dead_owner } => {
                case.set_at_large(false);
                // One that failed may not have reached its lock to remove it.
                if matches!(result.outcome, Outcome::Failed(_)) {
                    case.unlock(dead_owner.as_deref()).await;
                }
                return told(work, result.outcome, cancel).await;
            }
            Ended::Died(death) => {
                if !follow(work, death, &mut dead, cancel).await? {
                    return Ok(());
                }
            }
        }
    }
}

/// No mover can be sent any more; that of an earlier server may have done it before.
async fn unprepared(work: &dyn Work, words: &str) -> Result<(), ApiError> {
    if work.case().has_begun() { work.unheard(words).await } else { failed(work, words).await }
}

async fn told(work: &dyn Work, outcome: Outcome, cancel: &CancellationToken) -> Result<(), ApiError> {
    match outcome {
        Outcome::Restored(told) if told.failed.count > 0 => {
            let (count, first) = (told.failed.count, told.failed.first.join(", "));
            failed(work, &format!("{count} files could not be restored ({first}){}", work.stays())).await
        }
        Outcome::Restored(_) => work.done(outcome).await,
        // A volume that was filled is; a copy that nobody wants goes.
        _ if cancel.is_cancelled() => cancelled(work, CANCELLED).await,
        Outcome::Failed(failure) if failure.cause == Cause::Deadline => {
            work.unheard(&work.case().late()).await
        }
        Outcome::Failed(failure) if failure.cause == Cause::WrongVolume => {
            let whose = work.whose().map(|whose| format!("{whose}: ")).unwrap_or_default();
            work.unheard(&format!("{whose}{}", failure.message)).await
        }
        Outcome::Failed(failure) => work.unheard(&failure.message).await,
        outcome => work.done(outcome).await,
    }
}

/// A mover died. True where another attempt follows; else the object is at its end.
async fn follow(
    work: &dyn Work,
    death: Death,
    dead: &mut Vec<String>,
    cancel: &CancellationToken,
) -> Result<bool, ApiError> {
    let case = work.case();
    // Also before another attempt, which takes a lock beside it.
    case.unlock(death.dead_owner.as_deref()).await;
    let is_over =
        death.dead_owner.is_some() || matches!(death.cause, DeathCause::Unschedulable | DeathCause::Refused);
    case.set_at_large(!is_over);
    if cancel.is_cancelled() {
        return cancelled(work, CANCELLED).await.map(|()| false);
    }
    let died = Died {
        attempt: case.attempt(),
        may_retry: death.may_retry,
        is_over,
        writes: work.alone().is_some(),
        is_undone: work.is_undone().await,
    };
    match next(died) {
        Next::Again => {}
        Next::Nothing => {
            let words = work.complaint(death.words).await;
            return work.unheard(&words).await.map(|()| false);
        }
        Next::NothingBeside => {
            let why = work.alone().unwrap_or_default();
            let words = format!("{}; it is not tried again, because {why}", death.words);
            return work.unheard(&words).await.map(|()| false);
        }
    }
    dead.extend(death.dead_owner);
    case.give_up().await;
    if !case.write(status::again(case.attempt() + 1, dead, &death.words)).await? {
        return work.clean().await.map(|_| false);
    }
    case.tell("Retried", &death.words).await;
    case.desk.hands.clear(&case.task()).await?;
    work.discard().await?;
    case.set_attempt(case.attempt() + 1);
    Ok(true)
}

/// Nothing of it can be used.
pub(crate) async fn failed(work: &dyn Work, words: &str) -> Result<(), ApiError> {
    let (case, left) = (work.case(), work.clean().await?);
    let words = format!("{words}{left}");
    let mut end = status::failed(&words, case.now());
    work.complete(&mut end, left.is_empty());
    case.give_up().await;
    case.write(end).await?;
    case.tell("Failed", &words).await;
    Ok(())
}

pub(crate) async fn cancelled(work: &dyn Work, words: &str) -> Result<(), ApiError> {
    let (case, left) = (work.case(), work.clean().await?);
    let mut end = status::canceled(&format!("{words}{}{left}", work.stays()), case.now());
    work.complete(&mut end, left.is_empty());
    case.give_up().await;
    case.write(end).await?;
    Ok(())
}

pub(crate) async fn misunderstood(work: &dyn Work, outcome: &Outcome) -> Result<(), ApiError> {
    failed(work, &format!("the mover answered another question: {outcome:?}")).await
}

/// Its end is written although not all could be taken away: nobody can do that. Work that is on record is done.
async fn give_up(work: &dyn Work, error: &ApiError) -> Result<(), ApiError> {
    let case = work.case();
    let mut words = format!("{}; what was made for it may be left behind", error.chain());
    let (reason, mut end) = if let Some(end) = work.recorded().await? {
        ("NotCleared", end)
    } else {
        // What can be taken away goes.
        words.push_str(&work.clean().await.unwrap_or_default());
        case.give_up().await;
        ("Failed", status::failed(&words, case.now()))
    };
    work.complete(&mut end, false);
    case.tell(reason, &words).await;
    match case.write(end).await {
        Err(error) if !case.is_hopeless(&error) || error.is_transient() => Err(error),
        _ => Ok(()),
    }
}
