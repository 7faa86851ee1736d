//! Times in objects: whole seconds, UTC, as the API server writes its own.

use jiff::Timestamp;

/// For example `2026-11-15T17:30:00Z`.
pub fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_dropped() {
        let time: Timestamp = "2026-11-15T17:30:00.987Z".parse().unwrap();
        assert_eq!(seconds(time), "2026-11-15T17:30:00Z");
    }
}
