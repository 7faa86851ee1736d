//! When a failed reconcile is repeated: soon at first, then with growing pauses, with jitter so that objects that
//! failed together are not retried together. Used by [`crate::dynamic`].

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use crate::locked;

/// The pause after the first failure of an object, and the longest one.
const FIRST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_mins(1);
/// The pause after a write conflict: the object is read again soon.
const CONFLICT: Duration = Duration::from_secs(1);

/// How often each object failed since it last succeeded, by namespace and name.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: Mutex<BTreeMap<(String, String), u32>>,
}

impl Backoff {
    /// The pause after one more failure.
    pub(crate) fn failed(&self, object: (String, String), is_conflict: bool) -> Duration {
        if is_conflict {
            return jittered(CONFLICT, rand::random());
        }
        let mut failures = locked(&self.failures);
        let count = failures.entry(object).or_default();
        *count = count.saturating_add(1);
        pause(*count, rand::random())
    }

    /// Called when the object was reconciled, or is gone.
    pub(crate) fn succeeded(&self, object: &(String, String)) {
        locked(&self.failures).remove(object);
    }

    /// The number of the next attempt, from 1.
    pub(crate) fn attempt(&self, object: &(String, String)) -> u32 {
        locked(&self.failures).get(object).copied().unwrap_or_default().saturating_add(1)
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
    fn each_object_has_its_own_count_which_ends_with_success() {
        let (backoff, object) = (Backoff::default(), ("n".to_owned(), "a".to_owned()));
        for _ in 0..4 {
            backoff.failed(object.clone(), false);
        }
        assert_eq!(backoff.attempt(&object), 5);
        assert_eq!(backoff.attempt(&("n".into(), "b".into())), 1);
        assert!(backoff.failed(object.clone(), true) < Duration::from_secs(2), "a conflict is not counted");
        assert_eq!(backoff.attempt(&object), 5);
        backoff.succeeded(&object);
        assert_eq!(backoff.attempt(&object), 1);
    }
}
