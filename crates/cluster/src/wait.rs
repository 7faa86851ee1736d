//! Waiting for the cluster: asks again until an answer is there or the deadline has passed.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::ApiError;

/// The deadline passed.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    #[error("{what} is not there after {seconds} s; last seen: {last}")]
    Deadline { what: String, seconds: u64, last: String },
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// What one look gave.
pub enum Look<T> {
    Done(T),
    /// Not yet; the text says what was seen.
    NotYet(String),
}

/// Looks every quarter of a second, later every second, until done or `limit` has passed.
pub async fn until<T, F>(what: &str, limit: Duration, mut look: F) -> Result<T, WaitError>
where
    F: AsyncFnMut() -> Result<Look<T>, ApiError>,
{
    let start = Instant::now();
    loop {
        let last = match look().await? {
            Look::Done(value) => return Ok(value),
            Look::NotYet(seen) => seen,
        };
        if start.elapsed() >= limit {
            return Err(WaitError::Deadline { what: what.to_owned(), seconds: limit.as_secs(), last });
        }
        let pause = if start.elapsed() < Duration::from_secs(5) { 250 } else { 1000 };
        sleep(Duration::from_millis(pause)).await;
    }
}
