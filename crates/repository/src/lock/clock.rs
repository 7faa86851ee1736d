//! The wall clock of locks. In tests it follows tokio's clock, which can be paused and advanced.

use jiff::Timestamp;

#[cfg(not(test))]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
pub(crate) fn now() -> Timestamp {
    let (real, shown) = (std::time::Instant::now(), tokio::time::Instant::now().into_std());
    let now = Timestamp::now();
    match shown.checked_duration_since(real) {
        Some(ahead) => now + ahead,
        None => now - real.duration_since(shown),
    }
}
