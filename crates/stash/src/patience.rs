//! Requests that the API server may never carry out: it refuses them, or a webhook of the cluster does not answer. The API server is well
//! then, and the webhook may be away for ever, so every wait for such a request ends.

use std::time::Duration;

use lifeboat_cluster::ApiError;
use lifeboat_control::Backoff;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// How long a webhook that fails is waited for.
pub(crate) const WEBHOOKS: Duration = Duration::from_mins(10);

/// How the API server's message begins if it cannot reach an admission webhook that must not be skipped; the code is 500.
const FAILED_WEBHOOK: &str = "failed calling webhook";

/// Whether a request failed because a webhook did not answer.
pub(crate) fn is_webhook(error: &ApiError) -> bool {
    error.code() == Some(500) && error.chain().contains(FAILED_WEBHOOK)
}

/// Requests of one kind, and since when they fail.
#[derive(Debug)]
pub(crate) struct Patience {
    limit: Duration,
    since: Option<Instant>,
}

impl Patience {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, since: None }
    }

    /// One more failure: whether the requests have failed for as long as is tolerated.
    pub(crate) fn is_over(&mut self) -> bool {
        self.since.get_or_insert_with(Instant::now).elapsed() >= self.limit
    }

    /// The next failure is the first again.
    pub(crate) fn succeeded(&mut self) {
        self.since = None;
    }

    /// The end of requests that failed for too long.
    pub(crate) fn given_up(&self, error: &ApiError) -> GivenUp {
        GivenUp::Webhook { error: error.chain(), minutes: self.limit.as_secs() / 60 }
    }
}

/// Why a request is not sent again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GivenUp {
    /// The API server refuses it whenever it is sent.
    #[error("{0}")]
    Refused(String),
    #[error(
        "{error}; it was tried again for {minutes} minutes and is given up: see why that webhook does not answer"
    )]
    Webhook { error: String, minutes: u64 },
    /// The session is cancelled, so that nothing is waited for.
    #[error("{0}")]
    Cancelled(String),
}

/// Whether the API server will always refuse the request.
pub(crate) fn is_refusal(error: &ApiError) -> bool {
    error.is_invalid() || error.code() == Some(403)
}

/// Sends a request, and sends it again as long as a webhook fails, up to [`WEBHOOKS`]. The inner error is the end; other errors of the API
/// server are left to the caller. After `cancel`, nothing is waited for.
pub(crate) async fn patiently<T, F: Future<Output = Result<T, ApiError>>>(
    cancel: &CancellationToken,
    mut request: impl FnMut() -> F,
) -> Result<Result<T, GivenUp>, ApiError> {
    let (mut patience, mut backoff) = (Patience::new(WEBHOOKS), Backoff::default());
    loop {
        let error = match request().await {
            Err(error) if is_webhook(&error) => error,
            Err(error) if is_refusal(&error) => return Ok(Err(GivenUp::Refused(error.chain()))),
            ended => return ended.map(Ok),
        };
        if cancel.is_cancelled() {
            return Ok(Err(GivenUp::Cancelled(error.chain())));
        }
        if patience.is_over() {
            return Ok(Err(patience.given_up(&error)));
        }
        tracing::warn!(error = error.chain(), "a webhook of the cluster fails; trying again");
        tokio::select! {
            () = sleep(backoff.failed()) => {}
            () = cancel.cancelled() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use kube::Api;
    use lifeboat_cluster::Attempt;
    use lifeboat_cluster::testing::{client, failure};
    use rstest::rstest;

    use super::*;

    const MESSAGE: &str =
        "Internal error occurred: failed calling webhook \"policy.example\": connection refused";

    async fn error(code: u16, message: &'static str) -> ApiError {
        let pods: Api<k8s_openapi::api::core::v1::Pod> =
            Api::namespaced(client(move |_| failure(code, message)).await, "shop");
        pods.get("web").await.attempt("create a Job").unwrap_err()
    }

    #[rstest]
    #[case::a_webhook_is_away(500, MESSAGE, true)]
    #[case::a_webhook_refuses(403, "admission webhook \"policy.example\" denied the request", false)]
    #[case::the_api_server_has_trouble(500, "etcdserver: request timed out", false)]
    #[tokio::test]
    async fn a_webhook_that_does_not_answer_is_known_by_the_message(
        #[case] code: u16,
        #[case] message: &'static str,
        #[case] expected: bool,
    ) {
        assert_eq!(is_webhook(&error(code, message).await), expected);
    }

    /// Errors are made before the clock is paused, because they come over a connection.
    async fn errors(count: usize) -> Vec<ApiError> {
        let mut errors = Vec::new();
        for _ in 0..count {
            errors.push(error(500, MESSAGE).await);
        }
        tokio::time::pause();
        errors
    }

    #[tokio::test]
    async fn a_webhook_that_comes_back_is_waited_for() {
        let mut errors = errors(3).await;
        let never = CancellationToken::new();
        let done = patiently(&never, || {
            let answer = errors.pop().map_or(Ok(7), Err);
            async move { answer }
        });
        assert_eq!(done.await.unwrap().unwrap(), 7);
    }

    #[tokio::test]
    async fn a_webhook_that_stays_away_is_given_up() {
        let (mut errors, began) = (errors(60).await, Instant::now());
        let never = CancellationToken::new();
        let given_up = patiently::<(), _>(&never, || {
            let answer = Err(errors.pop().unwrap());
            async move { answer }
        });
        let message = given_up.await.unwrap().unwrap_err().to_string();
        assert!(message.contains("policy.example") && message.contains("for 10 minutes"), "{message}");
        let lasted = began.elapsed();
        assert!(lasted >= WEBHOOKS && lasted < WEBHOOKS + Duration::from_mins(2), "{lasted:?}");
    }

    #[tokio::test]
    async fn nothing_is_waited_for_after_a_cancellation_and_other_errors_are_given_back() {
        let (cancel, tries) = (CancellationToken::new(), AtomicUsize::new(0));
        cancel.cancel();
        let (webhook, other) = (error(500, MESSAGE).await, error(503, "ServiceUnavailable").await);
        let mut answers = vec![other, webhook];
        let mut ask = || {
            tries.fetch_add(1, Ordering::Relaxed);
            let answer: Result<(), ApiError> = Err(answers.pop().unwrap());
            async move { answer }
        };
        assert!(matches!(patiently(&cancel, &mut ask).await, Ok(Err(GivenUp::Cancelled(_)))));
        assert_eq!(patiently(&cancel, &mut ask).await.unwrap_err().code(), Some(503));
        assert_eq!(tries.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_refusal_is_the_end() {
        let mut refusal = Some(error(403, "exceeded quota").await);
        let never = CancellationToken::new();
        let ended = patiently::<(), _>(&never, || {
            let answer = Err(refusal.take().unwrap());
            async move { answer }
        });
        let message = ended.await.unwrap().unwrap_err().to_string();
        assert_eq!(message, "cannot create a Job: exceeded quota");
    }
}
