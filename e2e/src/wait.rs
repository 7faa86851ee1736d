//! Waiting for the cluster: polls until a condition holds, with a deadline; the failure shows the last state.

use std::thread;
use std::time::{Duration, Instant};

/// Polls until `look` returns `Ok`; after `seconds` fails with the last `Err`.
pub fn wait_for<T>(what: &str, seconds: u64, mut look: impl FnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        let last = match look() {
            Ok(value) => return value,
            Err(seen) => seen,
        };
        assert!(
            start.elapsed() < Duration::from_secs(seconds),
            "{what} did not come about in {seconds} s; last seen: {last}"
        );
        thread::sleep(Duration::from_millis(300));
    }
}
