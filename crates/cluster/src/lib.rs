//! Access to a Kubernetes API: connecting, applying, the leader election, events. It carries out what crate `plan`
//! decided and makes no decisions.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod apply;
pub mod connect;
pub mod crds;
pub mod discovery;
pub mod events;
pub mod exec;
pub mod jobs;
pub mod lease;
pub mod list;
pub mod lookup;
pub mod objects;
pub mod policies;
pub mod rights;
#[cfg(feature = "testing")]
pub mod testing;
pub mod wait;
pub mod workloads;
pub mod write;

pub use connect::{ConnectError, ConnectOptions, connect, connect_patient};

use std::error::Error;

use kube::core::Status;

/// The field manager and the reporter of events.
pub const MANAGER: &str = "lifeboat";

/// A failed API call, with a text of what was attempted.
#[derive(Debug, thiserror::Error)]
#[error("cannot {attempt}")]
pub struct ApiError {
    pub attempt: String,
    #[source]
    pub source: Cause,
}

/// Why a call failed. For an answer of the API server only its message is shown.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    #[error("{}", message(.0))]
    Api(Box<Status>),
    #[error(transparent)]
    Other(kube::Error),
}

impl From<kube::Error> for Cause {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Api(status),
            other => Self::Other(other),
        }
    }
}

fn message(status: &Status) -> String {
    if status.message.is_empty() {
        format!("the API server answered {}", status.code)
    } else {
        status.message.clone()
    }
}

impl ApiError {
    pub fn code(&self) -> Option<u16> {
        match &self.source {
            Cause::Api(status) => Some(status.code),
            Cause::Other(_) => None,
        }
    }

    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// The object was changed or created by another client first.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// The API server refused the object itself (its schema, a policy).
    pub fn is_invalid(&self) -> bool {
        matches!(self.code(), Some(400 | 422))
    }

    /// The API server is busy, restarting or unreachable: the call may succeed when it is repeated.
    pub fn is_transient(&self) -> bool {
        match &self.source {
            Cause::Api(status) => status.code == 429 || status.code >= 500,
            Cause::Other(error) => matches!(error, kube::Error::HyperError(_) | kube::Error::Service(_)),
        }
    }

    /// A name from a fixed list, for metrics and logs.
    pub fn category(&self) -> &'static str {
        match self.code() {
            Some(404) => "not_found",
            Some(409) => "conflict",
            Some(400 | 422) => "invalid",
            Some(401 | 403) => "forbidden",
            _ if self.is_transient() => "transient",
            _ => "other",
        }
    }

    /// What the user can do.
    pub fn hint(&self) -> &'static str {
        match self.category() {
            "not_found" => "check that the object exists and that its kind is installed",
            "conflict" => "try again: another client changed or created the object first",
            "invalid" => {
                "correct what the message names; a rule of the cluster (schema, admission policy) refused it"
            }
            "forbidden" => "grant this right to the account that made the request",
            "transient" => "check that the API server runs and can be reached",
            _ => "see the server's log; if it shows no cause, report this as a bug in Lifeboat",
        }
    }

    /// The error and its causes, on one line.
    pub fn chain(&self) -> String {
        chain(self)
    }

    /// The error, its causes and the hint, on one line, for people.
    pub fn message(&self) -> String {
        format!("{}; {}", self.chain(), self.hint())
    }
}

/// An error and its causes, on one line. A cause whose text is already there is left out: some errors show their source
/// in their own message.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let message = cause.to_string();
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        source = cause.source();
    }
    text
}

/// Adds what was attempted to an API error.
pub trait Attempt<T> {
    fn attempt(self, attempt: impl Into<String>) -> Result<T, ApiError>;
}

impl<T> Attempt<T> for Result<T, kube::Error> {
    fn attempt(self, attempt: impl Into<String>) -> Result<T, ApiError> {
        self.map_err(|error| ApiError { attempt: attempt.into(), source: error.into() })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// An error that shows its source in its own message.
    #[derive(Debug, thiserror::Error)]
    #[error("cannot write a log: {source}")]
    struct Repeating {
        source: std::io::Error,
    }

    #[derive(Debug, thiserror::Error)]
    #[error("the backup failed")]
    struct Plain(#[source] Repeating);

    #[rstest]
    #[case::gone(404, "not_found", "is installed")]
    #[case::overtaken(409, "conflict", "try again")]
    #[case::schema(422, "invalid", "admission policy")]
    #[case::rights(403, "forbidden", "grant")]
    #[case::busy(503, "transient", "can be reached")]
    #[case::unknown(418, "other", "report")]
    fn a_failed_call_has_a_category_and_names_the_next_step(
        #[case] code: u16,
        #[case] category: &str,
        #[case] hint: &str,
    ) {
        let status = Status { code, message: "a rule refused it".to_owned(), ..Status::default() };
        let error = ApiError { attempt: "read Pod a".to_owned(), source: Cause::Api(Box::new(status)) };
        assert_eq!(error.category(), category);
        let message = error.message();
        assert!(
            message.starts_with("cannot read Pod a: a rule refused it; ") && message.contains(hint),
            "{message}"
        );
    }

    #[test]
    fn a_chain_of_errors_names_each_cause_once() {
        let error = Plain(Repeating { source: std::io::Error::other("the disk is full") });
        assert_eq!(chain(&error), "the backup failed: cannot write a log: the disk is full");
    }
}
