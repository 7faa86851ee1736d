//! The error type of this crate. For callers it answers three questions: `category()` (a name from a fixed list, for
//! events and metrics), `retry()` (never, later, now) and `hint()` (what the user can do). No variant contains a
//! secret.

use std::path::PathBuf;

pub use lifeboat_store::Retry;

/// The result of every operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The name of the config in messages.
pub(crate) const CONFIG: &str = "the config";

/// The holder of a conflicting lock, according to its lock file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub id: crate::id::LockId,
    pub host: String,
    pub user: String,
    pub process: i64,
    pub exclusive: bool,
    pub since: jiff::Timestamp,
}

/// An error of a repository or of the local system.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Object storage refused the request or failed.
    #[error("cannot {action}")]
    Store {
        action: String,
        #[source]
        source: lifeboat_store::Error,
    },
    #[error("there is no repository at '{location}'")]
    NoRepository { location: String },
    #[error("a repository already exists at '{location}'")]
    RepositoryExists { location: String },
    /// There is a config, but no key that opens it.
    #[error("the repository has no keys: the files in its directory 'keys' are missing")]
    NoKeys,
    #[error("the password opens none of the {keys} keys of the repository{}", damaged_keys(*damaged))]
    WrongPassword { keys: usize, damaged: usize },
    #[error("the repository is locked{} by process {} of {} on '{}' since {}",
        if holder.exclusive { " exclusively" } else { "" }, holder.process, holder.user, holder.host, holder.since)]
    Locked { holder: Box<Holder> },
    /// Our own lock no longer exists, or could not be renewed in time.
    #[error("the lock on the repository was lost: {detail}")]
    LockLost { detail: String },
    /// Content of the repository is wrong: damaged, truncated, swapped, or written by another program.
    #[error("{what} is damaged: {detail}")]
    Damaged { what: String, detail: String },
    #[error("{kind} blob {id} is not in the index")]
    MissingBlob { kind: crate::id::BlobKind, id: crate::id::BlobId },
    /// A file or directory of the source or the target.
    #[error("cannot {action} '{}'", path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// A program of the system, a pipe, or a temporary file.
    #[error("cannot {action}")]
    Local {
        action: String,
        #[source]
        source: std::io::Error,
    },
    /// The caller's request is invalid.
    #[error("{what}: {problem}")]
    Invalid { what: String, problem: String },
    /// The object that the caller named does not exist.
    #[error("{what}")]
    NothingFound { what: String },
    /// The operation would endanger data, so it was not carried out.
    #[error("refused: {reason}")]
    Refused { reason: String, hint: &'static str },
    /// The caller of a backup refused the snapshot in its `Confirm`. Contains the caller's own reason, which the
    /// caller downcasts.
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
    /// A name from a fixed list, for events and metrics.
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

    /// When the operation may be tried again.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Store { source, .. } => source.retry(),
            Self::Locked { .. } | Self::LockLost { .. } | Self::Local { .. } => Retry::Later,
            _ => Retry::Never,
        }
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Store { action, source } if is_unwritable(source) && action.starts_with("write lock") => {
                "commands that only read work without a lock: use --no-lock; for all others the repository must be \
                 writable"
            }
            Self::Store { source, .. } => return Some(source.hint().to_owned()),
            Self::NoKeys => {
                "restore the key files from a copy of the repository; without them no password opens it"
            }
            Self::NoRepository { .. } => {
                "check the location and its prefix, or create a repository there with `init`"
            }
            Self::RepositoryExists { .. } => "use the existing repository, or choose another location",
            Self::WrongPassword { .. } => {
                "use the password that the repository or one of its keys was created with"
            }
            Self::Locked { .. } => {
                "wait for the holder (--retry-lock 10m); a lock that its holder does not renew expires after \
                 30 minutes; when you know that the holder is dead, `unlock --remove-all` removes all locks at once"
            }
            Self::LockLost { .. } => "start again: data that is already stored is not stored again",
            Self::Damaged { what, .. } if what == CONFIG => {
                "nothing can be opened without it: restore the file 'config' from a copy of the same repository"
            }
            Self::Damaged { .. } | Self::MissingBlob { .. } => {
                "run `check --read-data` to see what is affected; other snapshots can still be restored; `repair` \
                 describes what can be repaired"
            }
            Self::Refused { hint, .. } => hint,
            _ => return None,
        };
        Some(text.to_owned())
    }

    /// For `map_err` on a call of the store; `action` is what was attempted, such as "list the snapshots".
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
