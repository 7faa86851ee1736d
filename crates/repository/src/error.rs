//! The one error of this crate. At the boundary it answers: `category()` (a bounded word for events and metrics),
//! `retry()` (never, later, now) and `hint()` (what a person can do). No variant holds a secret.

use std::path::PathBuf;

pub use lifeboat_store::Retry;

/// What every operation of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The config in messages.
pub(crate) const CONFIG: &str = "the config";

/// Who holds a lock that is in the way, as far as the lock file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub id: crate::id::LockId,
    pub host: String,
    pub user: String,
    pub process: i64,
    pub exclusive: bool,
    pub since: jiff::Timestamp,
}

/// What went wrong with a repository or beside it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Object storage refused or failed.
    #[error("cannot {action}")]
    Store {
        action: String,
        #[source]
        source: lifeboat_store::Error,
    },
    #[error("there is no repository at '{location}'")]
    NoRepository { location: String },
    #[error("there is a repository at '{location}' already")]
    RepositoryExists { location: String },
    /// There is a config and nothing that opens it.
    #[error("the repository has no keys: the files in its directory 'keys' are gone")]
    NoKeys,
    #[error("the password opens none of the {keys} keys of the repository{}", damaged_keys(*damaged))]
    WrongPassword { keys: usize, damaged: usize },
    #[error("the repository is locked{} by process {} of {} on '{}' since {}",
        if holder.exclusive { " exclusively" } else { "" }, holder.process, holder.user, holder.host, holder.since)]
    Locked { holder: Box<Holder> },
    /// Our own lock is no longer there, or could not be renewed in time.
    #[error("the lock on the repository was lost: {detail}")]
    LockLost { detail: String },
    /// What the repository holds is not what it should: damaged, cut, swapped, or written by something else.
    #[error("{what} is damaged: {detail}")]
    Damaged { what: String, detail: String },
    #[error("{kind} blob {id} is in no pack that the index names")]
    MissingBlob { kind: crate::id::BlobKind, id: crate::id::BlobId },
    /// A file or directory of the source or the target.
    #[error("cannot {action} '{}'", path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// A program of the system, a pipe, a temporary file.
    #[error("cannot {action}")]
    Local {
        action: String,
        #[source]
        source: std::io::Error,
    },
    /// What the caller asked for makes no sense.
    #[error("{what}: {problem}")]
    Invalid { what: String, problem: String },
    /// Nothing was found for what the caller named.
    #[error("{what}")]
    NothingFound { what: String },
    /// It would endanger data, so it was not done.
    #[error("refused: {reason}")]
    Refused { reason: String, hint: &'static str },
    /// The caller of a backup refused the snapshot in its `Confirm`. Holds the caller's own reason, to be downcast by it.
    #[error("the snapshot was not confirmed")]
    NotConfirmed(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("cancelled")]
    Cancelled,
}

fn is_unwritable(error: &lifeboat_store::Error) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error, lifeboat_store::Error::Disk { source, .. }
        if matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem))
}

fn damaged_keys(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => ", 1 of them is damaged".to_owned(),
        more => format!(", {more} of them are damaged"),
    }
}

impl Error {
    /// A short word out of a fixed set, for events and metrics.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Store { source, .. } => source.category(),
            Self::NoRepository { .. } => "no-repository",
            Self::RepositoryExists { .. } => "repository-exists",
            Self::WrongPassword { .. } => "wrong-password",
            Self::Locked { .. } => "locked",
            Self::LockLost { .. } => "lock-lost",
            Self::Damaged { .. } | Self::MissingBlob { .. } | Self::NoKeys => "damaged",
            Self::File { .. } | Self::Local { .. } => "local-files",
            Self::Invalid { .. } | Self::NothingFound { .. } => "invalid",
            Self::Refused { .. } | Self::NotConfirmed(_) => "refused",
            Self::Cancelled => "cancelled",
        }
    }

    /// When the same thing may be tried again.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Store { source, .. } => source.retry(),
            Self::Locked { .. } | Self::LockLost { .. } | Self::Local { .. } => Retry::Later,
            _ => Retry::Never,
        }
    }

    /// What a person can do about it.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Store { action, source } if is_unwritable(source) && action.starts_with("write lock") => {
                "commands that only read work without a lock: give --no-lock; for all others the repository has to be \
                 writable"
            }
            Self::Store { source, .. } => return Some(source.hint().to_owned()),
            Self::NoKeys => {
                "bring the key files back from a copy of the repository; without one of them no password opens it"
            }
            Self::NoRepository { .. } => {
                "check the location and its prefix, or make a repository there with `init`"
            }
            Self::RepositoryExists { .. } => "use it as it is, or give another location",
            Self::WrongPassword { .. } => {
                "give the password that the repository or one of its keys was made with"
            }
            Self::Locked { .. } => {
                "wait for the holder (--retry-lock 10m); a lock that nobody renews no longer counts after 30 \
                 minutes; when you know that it is dead, `unlock --remove-all` removes all locks at once"
            }
            Self::LockLost { .. } => "start again: nothing that was stored so far has to be stored twice",
            Self::Damaged { what, .. } if what == CONFIG => {
                "nothing can be opened without it: bring the file 'config' back from a copy of the same repository"
            }
            Self::Damaged { .. } | Self::MissingBlob { .. } => {
                "run `check --read-data` to see what is hit; other snapshots can still be restored; `repair` \
                 describes what can be mended"
            }
            Self::Refused { hint, .. } => hint,
            _ => return None,
        };
        Some(text.to_owned())
    }

    /// For `map_err` on a call of the store: what was attempted, as in "list the snapshots".
    pub fn store(action: impl Into<String>) -> impl FnOnce(lifeboat_store::Error) -> Self {
        let action = action.into();
        move |source| Self::Store { action, source }
    }

    /// For `map_err` on a system call about a file.
    pub fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }

    pub fn damaged(what: impl Into<String>, detail: impl std::fmt::Display) -> Self {
        Self::Damaged { what: what.into(), detail: detail.to_string() }
    }

    pub fn invalid(what: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Invalid { what: what.into(), problem: problem.into() }
    }
}
