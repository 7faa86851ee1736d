//! Waiting within a restore: polls start fast and slow down to one per second.

use std::time::Duration;

/// The pauses between polls.
pub struct Pace(Duration);

impl Default for Pace {
    fn default() -> Self {
        Self(Duration::from_millis(50))
    }
}

impl Pace {
    pub fn pause(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (self.0 * 2).min(Duration::from_secs(1));
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_slow_down_to_one_in_a_second() {
        let mut pace = Pace::default();
        let pauses: Vec<u128> = (0..7).map(|_| pace.pause().as_millis()).collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1000, 1000]);
    }
}
