//! What people see when a command fails: what was attempted, why it failed, what to do. Exit codes are stable:
//! 1 failed, 2 wrong usage (clap's own), 3 not found, 4 refused, 5 timed out.

use std::process::ExitCode;

use lifeboat_cluster::wait::WaitError;
use lifeboat_cluster::{ApiError, ConnectError};
use miette::Diagnostic;

/// A command's failure.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct CliError {
    message: String,
    help: Option<String>,
    kind: Kind,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Failed,
    NotFound,
    Refused,
    TimedOut,
}

impl CliError {
    /// Something went wrong underneath.
    pub(crate) fn failed(
        message: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { message: message.into(), help: None, kind: Kind::Failed, source: Some(source.into()) }
    }

    /// The thing named by the user does not exist.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None, kind: Kind::NotFound, source: None }
    }

    /// The command will not do this.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None, kind: Kind::Refused, source: None }
    }

    /// It did not come about in time.
    pub(crate) fn timed_out(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None, kind: Kind::TimedOut, source: None }
    }

    /// What the user should do.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self.kind {
            Kind::Failed => 1,
            Kind::NotFound => 3,
            Kind::Refused => 4,
            Kind::TimedOut => 5,
        })
    }
}

impl Diagnostic for CliError {
    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn std::fmt::Display>)
    }
}

impl From<ConnectError> for CliError {
    fn from(error: ConnectError) -> Self {
        let help = "name a cluster with --context or --kubeconfig; `kubectl config get-contexts` lists yours";
        Self::failed("cannot connect to a cluster", error).help(help)
    }
}

impl From<ApiError> for CliError {
    fn from(error: ApiError) -> Self {
        let help = match error.code() {
            Some(403) => Some("ask a cluster administrator for the right to do this".to_owned()),
            Some(404)
                if error.attempt.contains("BackupStorageLocation") || error.attempt.contains("version") =>
            {
                Some("if Lifeboat is not installed, run `lifeboat install` first".to_owned())
            }
            None if error.is_transient() => {
                Some("is the cluster running? `kubectl cluster-info` uses the same settings".to_owned())
            }
            _ => None,
        };
        Self {
            message: format!("cannot {}", error.attempt),
            help,
            kind: if error.is_not_found() { Kind::NotFound } else { Kind::Failed },
            source: Some(Box::new(error.source)),
        }
    }
}

impl From<WaitError> for CliError {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::Api(error) => error.into(),
            deadline @ WaitError::Deadline { .. } => Self::timed_out(deadline.to_string()),
        }
    }
}
