//! When a plugin is no longer called: one that hangs in every call would cost its timeout for each of thousands of
//! items, and one that crashes a new process for each. Counted for each method within a session, because an action
//! whose execution fails may still be able to cancel. Any answer, including an error, resets the count.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::error::PluginError;
use super::slot::Call;
use super::spares::ARE_READY;

/// Consecutive timeouts after which a plugin is given up; each costs its whole timeout.
const MOST_TIMEOUTS: u32 = 3;
/// Consecutive timeouts or crashes after which a plugin is given up. A crash is cheap and may be caused by a single
/// item.
const MOST_LOST: u32 = 10;

/// A call that is dropped sooner was dropped for another reason, such as the end of the backup.
const LONG: Duration = Duration::from_secs(10);

/// The method that is never given up: an operation continues whether or not its plugin answers, until the operation's
/// own timeout.
const NEVER_GIVEN_UP: &str = "Progress";

/// Calls without an answer since the last answer.
#[derive(Clone, Default)]
struct Lost {
    timeouts: u32,
    times: u32,
    last: String,
}

/// Counts by plugin and method.
#[derive(Default)]
pub(super) struct CircuitBreaker(Mutex<BTreeMap<(String, &'static str), Lost>>);

impl CircuitBreaker {
    /// Fails if the plugin is given up for this method.
    pub(super) fn check(&self, call: &Call) -> Result<(), PluginError> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(lost) = all.get(&key(call)) else { return Ok(()) };
        if lost.timeouts < MOST_TIMEOUTS && lost.times < MOST_LOST {
            return Ok(());
        }
        Err(PluginError::NotCalledAgain {
            plugin: call.plugin.clone(),
            call: call.what,
            times: lost.times,
            last: lost.last.clone(),
        })
    }

    /// Records how a call ended.
    pub(super) fn note<T>(&self, call: &Call, answer: &Result<T, PluginError>) {
        let is_late = matches!(answer, Err(PluginError::TimedOut { .. }));
        // How long such a question may take is the item's own limit, at whose end any question may be in the middle.
        if call.what == NEVER_GIVEN_UP || (call.what == ARE_READY && is_late) {
            return;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match answer {
            Err(error @ (PluginError::TimedOut { .. } | PluginError::Gone { .. })) => {
                let lost = all.entry(key(call)).or_default();
                lost.times += 1;
                lost.timeouts += u32::from(is_late);
                lost.last = error.to_string();
            }
            Err(PluginError::Closed) => {}
            _ => {
                all.remove(&key(call));
            }
        }
    }
}

/// A running call. If it is dropped after some time, its caller had a shorter limit than the host; it then counts as a
/// timeout.
pub(super) struct Watched {
    breaker: Arc<CircuitBreaker>,
    call: Call,
    began: Instant,
    ended: bool,
}

impl Watched {
    pub(super) fn begin(breaker: &Arc<CircuitBreaker>, call: &Call) -> Self {
        Self { breaker: Arc::clone(breaker), call: call.clone(), began: Instant::now(), ended: false }
    }

    pub(super) fn end<T>(mut self, answer: &Result<T, PluginError>) {
        self.ended = true;
        self.breaker.note(&self.call, answer);
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let after = self.began.elapsed();
        if !self.ended && after >= LONG {
            let (plugin, call) = (self.call.plugin.clone(), self.call.what);
            self.breaker.note::<()>(&self.call, &Err(PluginError::TimedOut { plugin, call, after }));
        }
    }
}

fn key(call: &Call) -> (String, &'static str) {
    (call.plugin.clone(), call.what)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn call(what: &'static str) -> Call {
        Call { plugin: "example.io/a".into(), what, limit: Duration::from_secs(1), init: None }
    }

    fn late() -> Result<(), PluginError> {
        Err(PluginError::TimedOut {
            plugin: "example.io/a".into(),
            call: "Execute",
            after: Duration::from_secs(1),
        })
    }

    fn gone() -> Result<(), PluginError> {
        let (plugin, how) = ("example.io/a".into(), "exit status: 7".into());
        Err(PluginError::Gone { plugin, call: "Execute", how })
    }

    #[rstest]
    #[case::hangs(late, 3)]
    #[case::crashes(gone, 10)]
    fn a_plugin_that_never_answers_is_given_up(
        #[case] how: fn() -> Result<(), PluginError>,
        #[case] after: u32,
    ) {
        let breaker = CircuitBreaker::default();
        for _ in 0..after {
            breaker.check(&call("Execute")).unwrap();
            breaker.note(&call("Execute"), &how());
        }
        let error = breaker.check(&call("Execute")).unwrap_err().to_string();
        assert!(error.contains(&format!("{after} times in a row")), "{error}");
        assert_eq!(breaker.check(&call("Cancel")), Ok(()), "only that method is given up");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_its_maker_gave_up_counts_unless_it_was_short() {
        let breaker = Arc::new(CircuitBreaker::default());
        for seconds in [1, 60, 60, 60] {
            assert_eq!(breaker.check(&call("Execute")), Ok(()));
            let watched = Watched::begin(&breaker, &call("Execute"));
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            drop(watched);
        }
        assert!(breaker.check(&call("Execute")).is_err());
        Watched::begin(&breaker, &call("Execute")).end(&Ok(()));
        assert_eq!(breaker.check(&call("Execute")), Ok(()));
    }

    #[test]
    fn progress_is_asked_for_until_the_operation_s_own_time_is_over() {
        let breaker = CircuitBreaker::default();
        for _ in 0..100 {
            breaker.note(&call("Progress"), &late());
        }
        assert_eq!(breaker.check(&call("Progress")), Ok(()));
    }

    #[test]
    fn questions_that_outlast_their_items_wait_do_not_count_and_crashes_do() {
        let breaker = CircuitBreaker::default();
        for _ in 0..100 {
            breaker.note(&call(ARE_READY), &late());
        }
        assert_eq!(breaker.check(&call(ARE_READY)), Ok(()));
        (0..10).for_each(|_| breaker.note(&call(ARE_READY), &gone()));
        assert!(breaker.check(&call(ARE_READY)).is_err());
    }

    #[test]
    fn any_answer_shows_that_it_is_worth_calling() {
        let breaker = CircuitBreaker::default();
        for _ in 0..5 {
            breaker.note(&call("Execute"), &late());
            breaker.note(&call("Execute"), &late());
            let reason = String::new();
            let answer = PluginError::Answer { plugin: "example.io/a".into(), call: "Execute", reason };
            breaker.note::<()>(&call("Execute"), &Err(answer));
        }
        assert_eq!(breaker.check(&call("Execute")), Ok(()));
    }
}
