//! The error of a command as the user sees it: what was attempted, why it failed, what to do. Exit codes are stable: 1
//! failed, 2 wrong usage (clap's own), 3 not found, 4 refused, 5 timed out. Repository commands have restic's: 1
//! failed, 3 incomplete, 10 no repository, 11 locked, 12 wrong password, 130 interrupted.

use std::process::ExitCode;

use lifeboat_cluster::wait::WaitError;
use lifeboat_cluster::{ApiError, ConnectError};
use miette::Diagnostic;

/// The exit code of a repository command that was ended by a signal.
pub(crate) const INTERRUPTED: u8 = 130;

/// The error that a command ends with.
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
    /// An exit code of restic, for repository commands.
    Restic(u8),
}

impl CliError {
    /// An operation failed with `source`.
    pub(crate) fn failed(
        message: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { message: message.into(), help: None, kind: Kind::Failed, source: Some(source.into()) }
    }

    /// The awaited work ended unsuccessfully.
    pub(crate) fn ended(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None, kind: Kind::Failed, source: None }
    }

    /// An object named by the user does not exist.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None, kind: Kind::NotFound, source: None }
    }

    /// The command refuses to do what was asked.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None, kind: Kind::Refused, source: None }
    }

    /// A timeout expired.
    pub(crate) fn timed_out(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None, kind: Kind::TimedOut, source: None }
    }

    /// Wrong usage of a repository command that clap cannot detect.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::restic(1, message)
    }

    /// Ends a repository command with one of restic's exit codes. Without a message nothing is printed.
    pub(crate) fn restic(code: u8, message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None, kind: Kind::Restic(code), source: None }
    }

    /// Whether nothing is printed, because the command has reported its errors itself.
    pub(crate) fn is_silent(&self) -> bool {
        self.message.is_empty()
    }

    /// Adds what the user should do.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code())
    }

    pub(crate) fn code(&self) -> u8 {
        match self.kind {
            Kind::Failed => 1,
            Kind::NotFound => 3,
            Kind::Refused => 4,
            Kind::TimedOut => 5,
            Kind::Restic(code) => code,
        }
    }

    /// The message and its causes, on one line.
    pub(crate) fn full_text(&self) -> String {
        Self::text_of(self)
    }

    /// An error and its causes, on one line.
    pub(crate) fn text_of(error: &dyn std::error::Error) -> String {
        lifeboat_cluster::chain(error)
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
                if [
                    "BackupStorageLocation",
                    "version",
                    "list ",
                    "create Backup",
                    "create Restore",
                    "create Schedule",
                ]
                .iter()
                .any(|text| error.attempt.contains(text)) =>
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

impl From<lifeboat_repository::Error> for CliError {
    fn from(error: lifeboat_repository::Error) -> Self {
        use lifeboat_repository::Error;
        let code = match &error {
            Error::NoRepository { .. } => 10,
            Error::Locked { .. } => 11,
            Error::WrongPassword { .. } | Error::NoKeys => 12,
            Error::Cancelled => INTERRUPTED,
            _ => 1,
        };
        let message = if code == INTERRUPTED { "interrupted".to_owned() } else { error.to_string() };
        let source = std::error::Error::source(&error).map(|cause| Causes::of(cause).into());
        Self { message, help: error.hint(), kind: Kind::Restic(code), source }
    }
}

impl From<lifeboat_kopia::Error> for CliError {
    fn from(error: lifeboat_kopia::Error) -> Self {
        use lifeboat_kopia::Error;
        let code = match &error {
            Error::NoRepository { .. } => 10,
            Error::Upgrading { .. } => 11,
            Error::WrongPassword => 12,
            Error::Cancelled => INTERRUPTED,
            _ => 1,
        };
        let message = if code == INTERRUPTED { "interrupted".to_owned() } else { error.to_string() };
        let source = std::error::Error::source(&error).map(|cause| Causes::of(cause).into());
        Self { message, help: error.hint(), kind: Kind::Restic(code), source }
    }
}

/// The causes of an error whose own text has become the message.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct Causes {
    text: String,
    #[source]
    source: Option<Box<Causes>>,
}

impl Causes {
    fn of(error: &dyn std::error::Error) -> Self {
        Self { text: error.to_string(), source: error.source().map(|cause| Box::new(Self::of(cause))) }
    }
}
