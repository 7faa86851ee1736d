//! When a failed attempt is repeated: soon at first, then with growing pauses, with jitter so that what failed together
//! is not retried together. [`Backoff`] counts the failures of one request or piece of work that is repeated in a loop;
//! [`ObjectBackoffs`], used by [`crate::dynamic`], has one for each reconciled object.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use crate::locked;

/// The pause after the first failure, and the longest one.
const FIRST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_mins(1);
/// The pause after a write conflict: the object is read again soon.
const CONFLICT: Duration = Duration::from_secs(1);

/// How often something failed since it last succeeded.
#[derive(Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The pause after one more failure.
    pub fn failed(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        pause(self.failures, rand::random())
    }

    /// The next failure is the first again.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }
}

/// The back-off of each object that failed since it was last reconciled, by namespace and name.
#[derive(Debug, Default)]
pub(crate) struct ObjectBackoffs {
    failed: Mutex<BTreeMap<(String, String), Backoff>>,
}

impl ObjectBackoffs {
    /// The pause after one more failure.
    pub(crate) fn failed(&self, object: (String, String), is_conflict: bool) -> Duration {
        if is_conflict {
            return jittered(CONFLICT, rand::random());
        }
        locked(&self.failed).entry(object).or_default().failed()
    }

    /// Called when the object was reconciled, or is gone.
    pub(crate) fn succeeded(&self, object: &(String, String)) {
        locked(&self.failed).remove(object);
    }

    /// The number of the next attempt, from 1.
    pub(crate) fn attempt(&self, object: &(String, String)) -> u32 {
        locked(&self.failed).get(object).map_or(0, |backoff| backoff.failures).saturating_add(1)
    }
}

/// `random` is from 0 to 1.
fn pause(failures: u32, random: f64) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    jittered(FIRST.saturating_mul(1 << doublings).min(LONGEST), random)
}

/// From three quarters of the pause to five quarters.
fn jittered(pause: Duration, random: f64) -> Duration {
    pause.mul_f64(0.75 + random.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::first(1, 5)]
    #[case::second(2, 10)]
    #[case::fourth(4, 40)]
    #[case::bounded(5, 60)]
    #[case::no_overflow(u32::MAX, 60)]
    fn the_pause_doubles_up_to_a_minute(#[case] failures: u32, #[case] seconds: u64) {
        assert_eq!(pause(failures, 0.5), Duration::from_secs(seconds));
    }

    #[test]
    fn the_pause_is_spread_by_a_quarter_to_both_sides() {
        assert_eq!(pause(5, 0.0), Duration::from_secs(45));
        assert_eq!(pause(5, 1.0), Duration::from_secs(75));
    }

    #[test]
    fn a_success_ends_the_growth_of_the_pauses() {
        let mut backoff = Backoff::default();
        for _ in 0..5 {
            backoff.failed();
        }
        assert!(backoff.failed() >= Duration::from_secs(45));
        backoff.succeeded();
        assert!(backoff.failed() < Duration::from_secs(7));
    }

    #[test]
    fn each_object_has_its_own_count_which_ends_with_success() {
        let (backoffs, object) = (ObjectBackoffs::default(), ("n".to_owned(), "a".to_owned()));
        for _ in 0..4 {
            backoffs.failed(object.clone(), false);
        }
        assert_eq!(backoffs.attempt(&object), 5);
        assert_eq!(backoffs.attempt(&("n".into(), "b".into())), 1);
        assert!(backoffs.failed(object.clone(), true) < Duration::from_secs(2), "a conflict is not counted");
        assert_eq!(backoffs.attempt(&object), 5);
        backoffs.succeeded(&object);
        assert_eq!(backoffs.attempt(&object), 1);
    }
}
