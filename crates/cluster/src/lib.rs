//! Everything that touches a Kubernetes API: connecting, applying, the leader election, events. It carries out what
//! crate `plan` decided and decides nothing itself.
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
pub mod rights;
#[cfg(feature = "testing")]
pub mod testing;
pub mod wait;
pub mod workloads;
pub mod write;

pub use connect::{ConnectError, ConnectOptions, connect, connect_patient};

use kube::core::Status;

/// The name under which this program owns fields and signs events.
pub const MANAGER: &str = "lifeboat";

/// An API call that failed, with the words of what was attempted.
#[derive(Debug, thiserror::Error)]
#[error("cannot {attempt}")]
pub struct ApiError {
    pub attempt: String,
    #[source]
    pub source: Cause,
}

/// Why a call failed. What the API server answers is shown in its own words, without the structure around them.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    #[error("{}", words(.0))]
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

fn words(status: &Status) -> String {
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

    /// Somebody else changed or made the object first.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// The API server refused the object itself (its schema, a policy).
    pub fn is_invalid(&self) -> bool {
        matches!(self.code(), Some(400 | 422))
    }

    /// The API server is busy, restarting or out of reach: the same call may succeed in a moment.
    pub fn is_transient(&self) -> bool {
        match &self.source {
            Cause::Api(status) => status.code == 429 || status.code >= 500,
            Cause::Other(error) => matches!(error, kube::Error::HyperError(_) | kube::Error::Service(_)),
        }
    }

    /// The error and its causes, on one line.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        text
    }
}

/// Adds to an API error what was attempted.
pub trait Attempt<T> {
    fn attempt(self, words: impl Into<String>) -> Result<T, ApiError>;
}

impl<T> Attempt<T> for Result<T, kube::Error> {
    fn attempt(self, words: impl Into<String>) -> Result<T, ApiError> {
        self.map_err(|error| ApiError { attempt: words.into(), source: error.into() })
    }
}
