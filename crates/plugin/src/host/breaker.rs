//! When a plugin is not called any more: one that hangs in every call would cost its timeout for each of thousands of items,
//! and one that crashes a new process. Kept for each method within a session, because an action that cannot be executed may
//! still be able to cancel. Any answer, an error too, shows that it is worth calling.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::error::PluginError;
use super::slot::Call;

/// Calls in a row that took too long, until a plugin is given up. Each of them costs its whole timeout.
const MOST_TIMEOUTS: u32 = 3;
/// Calls in a row that took too long or ended the program. A crash is cheap, and may be one item's.
const MOST_LOST: u32 = 10;

/// A call that is dropped sooner was dropped for another reason, such as that the operation ends.
const LONG: Duration = Duration::from_secs(10);

/// Whose silence says nothing: an operation goes on whether or not its plugin tells, until its own time is over.
const ASKED_FOR_EVER: &str = "Progress";

/// Calls without an answer, since the last one with it.
#[derive(Clone, Default)]
struct Lost {
    timeouts: u32,
    times: u32,
    last: String,
}

/// By plugin and method.
#[derive(Default)]
pub(super) struct Patience(Mutex<BTreeMap<(String, &'static str), Lost>>);

impl Patience {
    /// Whether a call is worth making.
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

    /// How a call ended.
    pub(super) fn note<T>(&self, call: &Call, answer: &Result<T, PluginError>) {
        if call.what == ASKED_FOR_EVER {
            return;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match answer {
            Err(error @ (PluginError::TimedOut { .. } | PluginError::Gone { .. })) => {
                let lost = all.entry(key(call)).or_default();
                lost.times += 1;
                lost.timeouts += u32::from(matches!(error, PluginError::TimedOut { .. }));
                lost.last = error.to_string();
            }
            Err(PluginError::Closed) => {}
            _ => {
                all.remove(&key(call));
            }
        }
    }
}

/// A call on its way. One that is dropped after a while was too slow for whoever made it, whose limit may be shorter than the
/// host's, and counts as one that took too long.
pub(super) struct Watched {
    patience: Arc<Patience>,
    call: Call,
    began: Instant,
    ended: bool,
}

impl Watched {
    pub(super) fn begin(patience: &Arc<Patience>, call: &Call) -> Self {
        Self { patience: Arc::clone(patience), call: call.clone(), began: Instant::now(), ended: false }
    }

    pub(super) fn end<T>(mut self, answer: &Result<T, PluginError>) {
        self.ended = true;
        self.patience.note(&self.call, answer);
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let after = self.began.elapsed();
        if !self.ended && after >= LONG {
            let (plugin, call) = (self.call.plugin.clone(), self.call.what);
            self.patience.note::<()>(&self.call, &Err(PluginError::TimedOut { plugin, call, after }));
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
        let patience = Patience::default();
        for _ in 0..after {
            patience.check(&call("Execute")).unwrap();
            patience.note(&call("Execute"), &how());
        }
        let error = patience.check(&call("Execute")).unwrap_err().to_string();
        assert!(error.contains(&format!("{after} times in a row")), "{error}");
        assert_eq!(patience.check(&call("Cancel")), Ok(()), "only that method is given up");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_its_maker_gave_up_counts_unless_it_was_short() {
        let patience = Arc::new(Patience::default());
        for seconds in [1, 60, 60, 60] {
            assert_eq!(patience.check(&call("Execute")), Ok(()));
            let watched = Watched::begin(&patience, &call("Execute"));
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            drop(watched);
        }
        assert!(patience.check(&call("Execute")).is_err());
        Watched::begin(&patience, &call("Execute")).end(&Ok(()));
        assert_eq!(patience.check(&call("Execute")), Ok(()));
    }

    #[test]
    fn progress_is_asked_for_until_the_operation_s_own_time_is_over() {
        let patience = Patience::default();
        for _ in 0..100 {
            patience.note(&call("Progress"), &late());
        }
        assert_eq!(patience.check(&call("Progress")), Ok(()));
    }

    #[test]
    fn any_answer_shows_that_it_is_worth_calling() {
        let patience = Patience::default();
        for _ in 0..5 {
            patience.note(&call("Execute"), &late());
            patience.note(&call("Execute"), &late());
            let reason = String::new();
            let answer = PluginError::Answer { plugin: "example.io/a".into(), call: "Execute", reason };
            patience.note::<()>(&call("Execute"), &Err(answer));
        }
        assert_eq!(patience.check(&call("Execute")), Ok(()));
    }
}
