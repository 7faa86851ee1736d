//! Whether and when a failed BackupSession is retried: by another session, with one retry less.

use jiff::{SignedDuration, Timestamp};
use lifeboat_api::common::GoDuration;

use crate::stash::state::SessionPhase;

/// A BackupSession, as far as retries need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedSession {
    pub phase: SessionPhase,
    /// From its spec.
    pub retry_left: Option<i32>,
    /// When it ended.
    pub ended: Timestamp,
    /// From its status.
    pub retried: Option<bool>,
    /// From its status.
    pub next_retry: Option<Timestamp>,
}

/// What to do about retries of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// There is no retry, or it was already created.
    Nothing,
    /// Record this time as `nextRetry`, and decide again then.
    Wait(Timestamp),
    /// Make the session of this due time with so many retries left, and record `retried`.
    Now { due: Timestamp, retry_left: i32 },
}

/// Decides whether and when a failed session is retried. The due time of the retry is a whole second after the end, and therefore names no earlier session. A
/// recorded due time is used again, so that the retry has the same name if the server dies and creates it again.
pub fn retry(session: &FailedSession, delay: Option<GoDuration>, now: Timestamp) -> Retry {
    let left = session.retry_left.unwrap_or(0);
    if session.phase != SessionPhase::Failed || left <= 0 || session.retried == Some(true) {
        return Retry::Nothing;
    }
    let Some(due) = session.next_retry else { return Retry::Wait(first_due(session.ended, delay)) };
    if due > now { Retry::Wait(due) } else { Retry::Now { due, retry_left: left - 1 } }
}

fn first_due(ended: Timestamp, delay: Option<GoDuration>) -> Timestamp {
    let delay = delay.map_or(SignedDuration::ZERO, GoDuration::to_signed).max(SignedDuration::ZERO);
    let later = ended.checked_add(delay).unwrap_or(Timestamp::MAX);
    Timestamp::from_second(later.as_second().saturating_add(1)).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn failed() -> FailedSession {
        FailedSession {
            phase: SessionPhase::Failed,
            retry_left: Some(2),
            ended: at(100),
            retried: None,
            next_retry: None,
        }
    }

    #[rstest]
    #[case::succeeded(FailedSession { phase: SessionPhase::Succeeded, ..failed() }, Retry::Nothing, "nothing failed")]
    #[case::skipped(FailedSession { phase: SessionPhase::Skipped, ..failed() }, Retry::Nothing, "it did not run")]
    #[case::no_retries(FailedSession { retry_left: None, ..failed() }, Retry::Nothing, "no retryConfig")]
    #[case::used_up(FailedSession { retry_left: Some(0), ..failed() }, Retry::Nothing, "the last one failed")]
    #[case::made(FailedSession { retried: Some(true), next_retry: Some(at(161)), ..failed() }, Retry::Nothing, "it was made")]
    #[case::just_failed(failed(), Retry::Wait(at(161)), "the time is recorded first")]
    #[case::recorded(FailedSession { next_retry: Some(at(300)), ..failed() }, Retry::Wait(at(300)), "it is not due")]
    #[case::due(
        FailedSession { next_retry: Some(at(161)), ..failed() },
        Retry::Now { due: at(161), retry_left: 1 },
        "one retry less"
    )]
    fn a_failed_session_is_retried_after_the_delay(
        #[case] session: FailedSession,
        #[case] expected: Retry,
        #[case] reason: &str,
    ) {
        let delay = Some(GoDuration::from_secs(60));
        assert_eq!(retry(&session, delay, at(200)), expected, "{reason}");
    }

    proptest! {
        #[test]
        fn a_retry_is_due_after_the_end_and_retries_run_out(
            ended in 0..1_000_000i64, delay in -10..10_000i64, left in 0..5i32,
        ) {
            let delay = Some(GoDuration::from_secs(delay));
            let mut session = FailedSession { retry_left: Some(left), ended: at(ended), ..failed() };
            let mut made = 0;
            let mut now = at(ended);
            loop {
                match retry(&session, delay, now) {
                    Retry::Nothing => break,
                    Retry::Wait(due) => {
                        prop_assert!(due > session.ended);
                        session.next_retry = Some(due);
                        now = due;
                    }
                    Retry::Now { due, retry_left } => {
                        made += 1;
                        session = FailedSession { retry_left: Some(retry_left), ended: due, ..failed() };
                    }
                }
            }
            prop_assert_eq!(made, left);
        }
    }
}
