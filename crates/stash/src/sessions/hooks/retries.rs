//! Tries a hook again that could not begin, because a request to the API server failed: the server was away, overloaded, or a webhook did
//! not answer. A hook that is owed must not be lost by that. A session has to end as well, so the hook is given up after [`LIMIT`]; a hook
//! that ran and failed is not run again. Called for the hooks of hosts and of batches.

use std::time::Duration;

use lifeboat_cluster::ApiError;
use lifeboat_cluster::exec::ExecError;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::HookFailure;
use crate::sessions::interruption::{Interruption, InterruptionRecord, Next};

/// How long the requests of a hook are tried again.
pub(in crate::sessions) const LIMIT: Duration = Duration::from_mins(5);

/// Runs the hook until it has begun, at most for [`LIMIT`]. After `cancel`, it is not tried again.
pub(in crate::sessions) async fn until_begun<F: Future<Output = Result<(), HookFailure>>>(
    cancel: &CancellationToken,
    record: &dyn InterruptionRecord,
    mut hook: impl FnMut() -> F,
) -> Result<(), HookFailure> {
    let mut interruption = Interruption::new(LIMIT);
    loop {
        let failure = match hook().await {
            Err(failure) if may_pass(&failure) => failure,
            ended => {
                interruption.passed(record).await;
                return ended;
            }
        };
        if cancel.is_cancelled() {
            return Err(failure);
        }
        let failure = failure.to_string();
        let pause = match interruption.failed(record, &failure).await {
            Ok(Next::Again(pause)) => pause,
            Ok(Next::GivenUp(_)) => {
                return Err(HookFailure::GivenUp { failure, minutes: LIMIT.as_secs() / 60 });
            }
            // Another server continues the hook.
            Err(_conflict) => return Err(HookFailure::Left),
        };
        tracing::warn!(error = failure, "a hook could not begin; trying again");
        tokio::select! {
            () = sleep(pause) => {}
            () = cancel.cancelled() => {}
        }
    }
}

/// Whether a request failed that may succeed later.
fn may_pass(failure: &HookFailure) -> bool {
    matches!(
        failure,
        HookFailure::Api(error) | HookFailure::Exec(ExecError::Api(error)) if ApiError::is_transient(error)
    )
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::Api;
    use lifeboat_cluster::Attempt;
    use lifeboat_cluster::testing::{client, failure};
    use rstest::rstest;
    use tokio::time::Instant;

    use super::*;
    use crate::sessions::interruption::Lasted;
    use crate::sessions::interruption::tests::Says;

    /// A record without a begin.
    fn unrecorded() -> Says {
        Says::new(Lasted::For(Duration::ZERO))
    }

    async fn error(code: u16) -> ApiError {
        let pods: Api<Pod> = Api::namespaced(client(move |_| failure(code, "Reason")).await, "shop");
        pods.get("web-1").await.attempt("run a command").unwrap_err()
    }

    async fn unreachable() -> ApiError {
        let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let config = kube::Config::new(format!("http://{closed}").parse().unwrap());
        let pods: Api<Pod> = Api::namespaced(kube::Client::try_from(config).unwrap(), "shop");
        pods.get("web-1").await.attempt("run a command").unwrap_err()
    }

    #[rstest]
    #[case::the_api_server_is_away(Some(503), true)]
    #[case::a_webhook_of_commands_fails(Some(500), true)]
    #[case::a_gateway_before_it_fails(Some(502), true)]
    #[case::it_is_overloaded(Some(429), true)]
    #[case::nothing_answers(None, true)]
    #[case::the_pod_is_gone(Some(404), false)]
    #[case::not_allowed(Some(403), false)]
    #[tokio::test]
    async fn a_hook_that_could_not_begin_is_tried_again_where_that_helps(
        #[case] code: Option<u16>,
        #[case] again: bool,
    ) {
        for in_exec in [true, false] {
            let error = match code {
                Some(code) => error(code).await,
                None => unreachable().await,
            };
            let failed =
                if in_exec { HookFailure::Exec(ExecError::Api(error)) } else { HookFailure::Api(error) };
            assert_eq!(may_pass(&failed), again, "{failed}");
        }
    }

    /// Answers of the API server, the last one first, with a clock that stands still otherwise.
    async fn failures(count: usize) -> Vec<HookFailure> {
        let mut failures = Vec::new();
        for _ in 0..count {
            failures.push(HookFailure::Exec(ExecError::Api(error(500).await)));
        }
        tokio::time::pause();
        failures
    }

    #[tokio::test]
    async fn a_hook_runs_once_the_api_server_is_back() {
        let (mut failures, mut runs) = (failures(3).await, 0);
        let never = CancellationToken::new();
        let unrecorded = unrecorded();
        let ran = until_begun(&never, &unrecorded, || {
            runs += 1;
            let answer = failures.pop().map_or(Ok(()), Err);
            async move { answer }
        });
        assert!(ran.await.is_ok());
        assert_eq!(runs, 4);
    }

    #[tokio::test]
    async fn a_hook_that_cannot_begin_is_given_up_after_five_minutes() {
        let (mut failures, began) = (failures(60).await, Instant::now());
        let never = CancellationToken::new();
        let unrecorded = unrecorded();
        let ran = until_begun(&never, &unrecorded, || {
            let answer = Err(failures.pop().unwrap());
            async move { answer }
        });
        let message = ran.await.unwrap_err().to_string();
        assert!(message.contains("cannot run a command") && message.contains("for 5 minutes"), "{message}");
        let lasted = began.elapsed();
        assert!(lasted >= LIMIT && lasted < LIMIT + Duration::from_mins(2), "{lasted:?}");
    }

    #[tokio::test]
    async fn the_time_of_a_hook_does_not_begin_anew_with_the_server() {
        let (mut failures, lasted) = (failures(3).await, Says::new(Lasted::For(LIMIT)));
        let never = CancellationToken::new();
        let ran = until_begun(&never, &lasted, || {
            let answer = Err(failures.pop().unwrap());
            async move { answer }
        });
        assert!(matches!(ran.await, Err(HookFailure::GivenUp { .. })));
    }

    #[tokio::test]
    async fn a_hook_that_ran_and_failed_is_not_run_again_nor_one_of_a_session_that_was_cancelled() {
        let mut failures = failures(1).await;
        let mut runs = 0;
        let never = CancellationToken::new();
        let unrecorded = unrecorded();
        let ran = until_begun(&never, &unrecorded, || {
            runs += 1;
            async { Err(HookFailure::Exec(ExecError::Failed { message: "exit code 1".into() })) }
        });
        assert!(matches!(ran.await, Err(HookFailure::Exec(ExecError::Failed { .. }))));
        assert_eq!(runs, 1);
        let cancel = CancellationToken::new();
        cancel.cancel();
        let ran = until_begun(&cancel, &unrecorded, || {
            let answer = Err(failures.pop().unwrap());
            async move { answer }
        });
        assert!(matches!(ran.await, Err(HookFailure::Exec(ExecError::Api(_)))));
    }
}
