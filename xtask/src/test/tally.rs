//! Counts tests: parses the output of `cargo test` line by line.

use std::fmt;
use std::ops::Add;

/// The numbers of passed and failed tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u32,
    pub(crate) failed: u32,
}

impl Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { passed: self.passed + other.passed, failed: self.failed + other.failed }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

impl Tally {
    pub(crate) fn is_nothing(self) -> bool {
        self.passed + self.failed == 0
    }

    /// The counts in a line such as `test result: ok. 3 passed; 0 failed; …`; None for any other line.
    pub(crate) fn of_line(line: &str) -> Option<Self> {
        let summary = line.trim().strip_prefix("test result: ")?;
        let number = |word: &str| {
            summary
                .split(['.', ';'])
                .find_map(|piece| piece.trim().strip_suffix(word)?.trim().parse().ok())
                .unwrap_or(0)
        };
        Some(Self { passed: number("passed"), failed: number("failed") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_summary_of_a_test_binary() {
        let line = "test result: FAILED. 60 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.22s";
        assert_eq!(Tally::of_line(line), Some(Tally { passed: 60, failed: 3 }));
        assert_eq!(Tally::of_line("test a::b ... ok"), None);
    }
}
