//! The end of a test run: the time of each part, and the slowest tests. `test.rs` collects and prints it.

use std::fmt;
use std::time::Duration;

/// How many of the slowest tests are printed.
const SLOWEST: usize = 10;

/// The times of parts and tests.
#[derive(Default)]
pub(crate) struct Times {
    parts: Vec<(String, Duration)>,
    tests: Vec<(String, Duration)>,
}

impl Times {
    pub(crate) fn part(&mut self, name: &str, time: Duration) {
        self.parts.push((name.to_owned(), time));
    }

    pub(crate) fn tests(&mut self, tests: Vec<(String, Duration)>) {
        self.tests.extend(tests);
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut slowest: Vec<_> = self.tests.iter().collect();
        slowest.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        if !slowest.is_empty() {
            writeln!(f, "the slowest tests:")?;
        }
        for (name, time) in slowest.iter().take(SLOWEST) {
            writeln!(f, "{:>8.1} s  {name}", time.as_secs_f64())?;
        }
        writeln!(f, "the parts:")?;
        for (name, time) in &self.parts {
            writeln!(f, "{:>6} s    {name}", time.as_secs())?;
        }
        let all: Duration = self.parts.iter().map(|(_, time)| *time).sum();
        write!(f, "{:>6} s    together", all.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_come_first_and_parts_in_their_order() {
        let mut times = Times::default();
        times.part("unit", Duration::from_secs(70));
        times.part("lint", Duration::from_secs(5));
        let named = |n: u64| (format!("test_{n}"), Duration::from_secs(n));
        times.tests((0..12).map(named).collect());
        let text = times.to_string();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(lines[1], "11.0 s  test_11");
        assert_eq!(lines[10], "2.0 s  test_2");
        assert_eq!(lines[11..], ["the parts:", "70 s    unit", "5 s    lint", "75 s    together"]);
    }
}
