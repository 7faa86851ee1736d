//! How often plugins were called within a session and how long the calls took: for the log of the backup or restore, so
//! that users see which plugin makes it slow. Time spent waiting for a turn is not counted.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The calls of one method of one plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    pub plugin: String,
    /// The method, such as `Execute`.
    pub call: &'static str,
    pub times: u64,
    /// The total duration.
    pub took: Duration,
}

impl fmt::Display for Used {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plugin, call, times, took } = self;
        write!(f, "plugin {plugin}: {call} was called {times} times and took {:.3} s", took.as_secs_f64())
    }
}

/// Number and total duration of calls, by plugin and method.
type Calls = BTreeMap<(String, &'static str), (u64, Duration)>;

#[derive(Default)]
pub(super) struct Usage(Mutex<Calls>);

impl Usage {
    pub(super) fn add(&self, plugin: &str, call: &'static str, took: Duration) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let one = all.entry((plugin.to_owned(), call)).or_default();
        one.0 += 1;
        one.1 += took;
    }

    pub(super) fn all(&self) -> Vec<Used> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let used = |((plugin, call), (times, took)): (&(String, &'static str), &(u64, Duration))| Used {
            plugin: plugin.clone(),
            call,
            times: *times,
            took: *took,
        };
        all.iter().map(used).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_one_method_add_up() {
        let usage = Usage::default();
        for call in ["Execute", "AppliesTo", "Execute"] {
            usage.add("example.io/a", call, Duration::from_millis(1500));
        }
        let lines: Vec<String> = usage.all().iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "plugin example.io/a: AppliesTo was called 1 times and took 1.500 s",
                "plugin example.io/a: Execute was called 2 times and took 3.000 s"
            ]
        );
    }
}
