//! Turns errors of the engine and the system into a cause from a fixed list and a message for the user. Pure.

use std::error::Error as _;
use std::io;

use lifeboat_repository::Error;

use crate::report::{Cause, Failure};

/// Why work ended without a result.
#[derive(Debug)]
pub(crate) enum Failed {
    Because(Failure),
    /// Cancelled by the deadline or a signal; the caller records which.
    Cancelled,
}

impl Failed {
    pub(super) fn new(cause: Cause, message: impl Into<String>) -> Self {
        Self::Because(Failure { cause, message: message.into() })
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Because(failure) => f.write_str(&failure.message),
            Self::Cancelled => f.write_str("cancelled"),
        }
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self::Because(failure)
    }
}

/// For `map_err` on a call of the engine. `side`: whether its local files are the source or the target.
pub(super) fn of(side: Cause) -> impl Fn(Error) -> Failed {
    move |error| match error {
        Error::Cancelled => Failed::Cancelled,
        error => Failed::new(cause(&error, side), message(&error)),
    }
}

/// The cause of an error of the engine.
pub(super) fn cause(error: &Error, side: Cause) -> Cause {
    match error {
        Error::Store { source, .. } => of_store(source),
        Error::NoRepository { .. } => Cause::NoRepository,
        Error::WrongPassword { .. } => Cause::Password,
        Error::Locked { .. } | Error::LockLost { .. } => Cause::Locked,
        Error::NoKeys | Error::Damaged { .. } | Error::MissingBlob { .. } => Cause::Damaged,
        Error::File { source, .. } | Error::Local { source, .. } if is_full(source) => Cause::NoSpace,
        // An entry that the snapshot should contain.
        Error::NothingFound { .. } if side == Cause::Target => Cause::Damaged,
        Error::File { .. }
        | Error::Local { .. }
        | Error::Invalid { .. }
        | Error::Refused { .. }
        | Error::NothingFound { .. } => side,
        Error::Cancelled => Cause::Stopped,
        _ => Cause::Other,
    }
}

fn of_store(error: &lifeboat_store::Error) -> Cause {
    use lifeboat_store::Error as Store;
    match error {
        Store::Credentials { .. } | Store::CredentialsFormat { .. } | Store::Denied { .. } => {
            Cause::Credentials
        }
        // The index or a listing names an object that does not exist.
        Store::NotFound { .. } => Cause::Damaged,
        Store::Disk { source, .. } if is_full(source) => Cause::NoSpace,
        _ => Cause::Storage,
    }
}

/// Whether a disk or a user's quota is full.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// An error with its sources and a hint.
pub(super) fn message(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = cause.source();
    }
    match hint(error) {
        Some(hint) => format!("{text}; {hint}"),
        None => text,
    }
}

/// The hint for a cluster where the engine's hint is about its command line; otherwise the engine's hint.
fn hint(error: &Error) -> Option<String> {
    let text = match error {
        Error::WrongPassword { .. } => {
            "restore the password that the repository was created with (`lifeboat install --repository-password-file`)"
        }
        Error::Locked { .. } => {
            "the operation is retried later; a lock that its holder does not renew expires after 30 minutes, and \
             `lifeboat repository unlock` removes it earlier"
        }
        Error::File { source, .. } | Error::Local { source, .. } if is_full(source) => {
            "free some space, and try again"
        }
        other => return other.hint(),
    };
    Some(text.to_owned())
}
