//! Operations that actions started: how an answer about one changes its record. Shared by backups and restores, which
//! poll and wait each in their own way.

use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

use jiff::Timestamp;
use lifeboat_api::common::Time;
use lifeboat_archive::documents::{OperationPhase, OperationStatus};
use lifeboat_plugin::actions::{ActionError, OperationProgress};
use tokio::time::timeout;

/// How long an action may take to answer one question. Missing answers are tolerated until the operation's own time
/// is over.
pub(crate) const ANSWER: Duration = Duration::from_mins(1);

/// The actions that did not answer in this round of polls: their other operations are not asked, because each would
/// wait as long, and there may be thousands.
#[derive(Default)]
pub(crate) struct Unresponsive(BTreeSet<String>);

impl Unresponsive {
    /// The answer of an action; None if it does not answer, or did not before.
    pub(crate) async fn ask<T>(&mut self, action: &str, question: impl Future<Output = T>) -> Option<T> {
        if self.0.contains(action) {
            return None;
        }
        let answer = timeout(ANSWER, question).await.ok();
        if answer.is_none() {
            self.0.insert(action.to_owned());
        }
        answer
    }
}

/// Writes the action's answer into the record of the operation.
pub(crate) fn answered(status: &mut OperationStatus, answer: Result<OperationProgress, ActionError>) {
    let progress = match answer {
        Ok(progress) => progress,
        Err(error) => return fail(status, error.to_string()),
    };
    status.phase = OperationPhase::InProgress;
    (status.n_completed, status.n_total) = (progress.done, progress.total);
    (status.operation_units, status.description) = (progress.units, progress.description);
    status.started = progress.started.map(Time).or(status.started.take());
    status.updated = progress.updated.map(Time).or(status.updated.take());
    if progress.completed && progress.error.is_empty() {
        status.phase = OperationPhase::Completed;
    } else if progress.completed {
        fail(status, progress.error);
    }
}

pub(crate) fn fail(status: &mut OperationStatus, message: impl Into<String>) {
    status.phase = OperationPhase::Failed;
    status.error = message.into();
}

/// Whether a running operation has exceeded its timeout.
pub(crate) fn is_over(status: &OperationStatus, timeout: Duration, now: Timestamp) -> bool {
    let created = status.created.as_ref().map(|time| time.0);
    let end = created.and_then(|time| time.checked_add(timeout).ok());
    !status.phase.has_ended() && end.is_some_and(|end| now > end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn thousands_of_operations_of_an_action_that_hangs_cost_one_wait() {
        let (mut silent, begin) = (Unresponsive::default(), tokio::time::Instant::now());
        for _ in 0..1000 {
            assert_eq!(silent.ask("hangs", std::future::pending::<()>()).await, None);
            assert_eq!(silent.ask("answers", async { 1 }).await, Some(1));
        }
        assert_eq!(begin.elapsed().as_secs(), ANSWER.as_secs());
    }

    #[test]
    fn a_record_follows_the_answers() {
        let mut status = OperationStatus::default();
        let begun = Timestamp::from_second(1000).unwrap();
        let answer =
            OperationProgress { done: 1, total: 2, started: Some(begun), ..OperationProgress::default() };
        answered(&mut status, Ok(answer));
        assert_eq!((status.phase, status.n_completed), (OperationPhase::InProgress, 1));
        let answer = OperationProgress { completed: true, done: 2, total: 2, ..OperationProgress::default() };
        answered(&mut status, Ok(answer.clone()));
        assert_eq!((status.phase, status.started.clone()), (OperationPhase::Completed, Some(Time(begun))));
        answered(&mut status, Ok(OperationProgress { error: "full".into(), ..answer }));
        assert_eq!((status.phase, status.error.as_str()), (OperationPhase::Failed, "full"));
        answered(&mut status, Err(ActionError::NoOperations));
        assert_eq!(status.phase, OperationPhase::Failed);
    }

    #[test]
    fn time_is_over_only_for_what_goes_on() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut status = OperationStatus { created: Some(Time(at(0))), ..OperationStatus::default() };
        let timeout = Duration::from_secs(10);
        assert!(!is_over(&status, timeout, at(10)) && is_over(&status, timeout, at(11)));
        fail(&mut status, "x");
        assert!(!is_over(&status, timeout, at(11)));
    }
}
