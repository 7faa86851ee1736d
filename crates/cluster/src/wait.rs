//! Waiting for the cluster: polls until a condition holds or the deadline has passed.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::ApiError;

/// Why waiting failed.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    #[error("timed out after {seconds} s waiting for {what}; last seen: {last}")]
    Deadline { what: String, seconds: u64, last: String },
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// The result of one poll.
pub enum Look<T> {
    Done(T),
    /// The condition does not hold; the text describes what was seen.
    NotYet(String),
}

/// Polls every quarter of a second, later every second, until done or `limit` has passed. While the API server is busy,
/// restarting or unreachable, polling continues; any other error ends the wait.
pub async fn until<T, F>(what: &str, limit: Duration, mut look: F) -> Result<T, WaitError>
where
    F: AsyncFnMut() -> Result<Look<T>, ApiError>,
{
    let start = Instant::now();
    loop {
        // A poll that hangs must not exceed the limit by much.
        let rest = limit.saturating_sub(start.elapsed()).max(Duration::from_secs(1));
        let last = match timeout(rest, look()).await {
            Ok(Ok(Look::Done(value))) => return Ok(value),
            Ok(Ok(Look::NotYet(seen))) => seen,
            Ok(Err(error)) if error.is_transient() => error.chain(),
            Ok(Err(error)) => return Err(error.into()),
            Err(_elapsed) => "no answer".to_owned(),
        };
        if start.elapsed() >= limit {
            return Err(WaitError::Deadline { what: what.to_owned(), seconds: limit.as_secs(), last });
        }
        let pause = if start.elapsed() < Duration::from_secs(5) { 250 } else { 1000 };
        sleep(Duration::from_millis(pause)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use k8s_openapi::api::core::v1::Secret;
    use kube::Api;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::Attempt;
    use crate::testing::{client, failure};

    /// Waits for a Secret that the API server returns after it has failed twice with `code`.
    async fn wait_behind(code: u16) -> Result<(), WaitError> {
        let asked = AtomicUsize::new(0);
        let client = client(move |_| match asked.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => failure(code, "Trouble"),
            _ => (200, json!({"metadata": {"name": "s"}})),
        });
        let secrets: Api<Secret> = Api::namespaced(client.await, "n");
        until("the secret", Duration::from_secs(20), async || {
            secrets.get("s").await.attempt("read Secret s").map(|_| Look::Done(()))
        })
        .await
    }

    #[rstest]
    #[case::busy(429)]
    #[case::broken(500)]
    #[case::restarting(503)]
    #[tokio::test]
    async fn waits_for_an_api_server_in_trouble(#[case] code: u16) {
        wait_behind(code).await.unwrap();
    }

    #[tokio::test]
    async fn an_error_that_will_not_pass_ends_the_wait() {
        assert!(matches!(wait_behind(403).await, Err(WaitError::Api(error)) if error.code() == Some(403)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_holds_for_a_look_that_hangs() {
        let waited = until("nothing", Duration::from_secs(5), async || {
            std::future::pending::<Result<Look<()>, ApiError>>().await
        });
        assert!(matches!(waited.await, Err(WaitError::Deadline { last, .. }) if last == "no answer"));
    }
}
