//! The error type of this crate. For callers it answers `category()` (a name from a fixed list, for events and metrics),
//! `retry()` and `hint()`. No variant contains a secret.

use std::path::PathBuf;

pub use lifeboat_store::Retry;

/// The result of every operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a kopia repository or of the local system.
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
    #[error("there is no kopia repository at '{location}'")]
    NoRepository { location: String },
    /// The tag of the format blob does not match: the password is wrong, or the blob was changed.
    #[error("the password does not open the kopia repository")]
    WrongPassword,
    /// The repository uses something that this version cannot read.
    #[error("the kopia repository uses {what}, which this version cannot read: {detail}")]
    Unsupported { what: &'static str, detail: String },
    /// Another program is changing the repository's format.
    #[error("the format of the kopia repository is being upgraded by '{owner}'")]
    Upgrading { owner: String },
    /// Content of the repository is wrong: damaged, truncated, swapped, or hostile.
    #[error("{what} is damaged: {detail}")]
    Damaged { what: String, detail: String },
    /// No index knows the content.
    #[error("content {id} is in no index of the repository")]
    MissingContent { id: String },
    /// The object that the caller named does not exist.
    #[error("{what}")]
    NothingFound { what: String },
    /// The caller's request is invalid.
    #[error("{what}: {problem}")]
    Invalid { what: String, problem: String },
    /// A file or directory of the target.
    #[error("cannot {action} '{}'", path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// A thread of this process died.
    #[error("cannot {action}")]
    Local {
        action: &'static str,
        #[source]
        source: std::io::Error,
    },
    /// The safe writing of files, which both readers share, failed.
    #[error(transparent)]
    Writing(lifeboat_repository::Error),
    #[error("cancelled")]
    Cancelled,
}

impl From<lifeboat_repository::Error> for Error {
    fn from(error: lifeboat_repository::Error) -> Self {
        match error {
            lifeboat_repository::Error::Cancelled => Self::Cancelled,
            lifeboat_repository::Error::File { action, path, source } => Self::File { action, path, source },
            other => Self::Writing(other),
        }
    }
}

impl Error {
    /// A name from a fixed list, for events and metrics.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Store { source, .. } => source.category(),
            Self::NoRepository { .. } => "no-repository",
            Self::WrongPassword => "wrong-password",
            Self::Unsupported { .. } => "unsupported",
            Self::Upgrading { .. } => "locked",
            Self::Damaged { .. } | Self::MissingContent { .. } => "damaged",
            Self::NothingFound { .. } | Self::Invalid { .. } => "invalid",
            Self::File { .. } | Self::Local { .. } => "local-files",
            Self::Writing(error) => error.category(),
            Self::Cancelled => "cancelled",
        }
    }

    /// When the operation may be tried again.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Store { source, .. } => source.retry(),
            Self::Upgrading { .. } | Self::Local { .. } => Retry::Later,
            Self::Writing(error) => error.retry(),
            _ => Retry::Never,
        }
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Store { source, .. } => return Some(source.hint().to_owned()),
            Self::NoRepository { .. } => {
                "check the location and its prefix: Velero's repositories are below PREFIX/kopia/NAMESPACE/, where \
                 NAMESPACE is the namespace that was backed up"
            }
            Self::WrongPassword => {
                "use the repository's password; Velero keeps it in the Secret velero-repo-credentials, key \
                 repository-password, of its own namespace. If the password is right, the format blob is damaged"
            }
            Self::Unsupported { .. } => {
                "nothing was changed; a newer version of Lifeboat, or kopia, may read it"
            }
            Self::Upgrading { .. } => "wait until the upgrade has ended, then try again",
            Self::Damaged { .. } | Self::MissingContent { .. } => {
                "run `check --read-data` to see which snapshots are affected; others can still be restored"
            }
            Self::Writing(error) => return error.hint(),
            _ => return None,
        };
        Some(text.to_owned())
    }

    /// For `map_err` on a call of the store; `action` is what was attempted, such as "list the indexes".
    pub(crate) fn store(action: impl Into<String>) -> impl FnOnce(lifeboat_store::Error) -> Self {
        let action = action.into();
        move |source| Self::Store { action, source }
    }

    /// For `map_err` on a system call about a file.
    pub(crate) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }

    pub(crate) fn damaged(what: impl Into<String>, detail: impl std::fmt::Display) -> Self {
        Self::Damaged { what: what.into(), detail: detail.to_string() }
    }

    pub(crate) fn unsupported(what: &'static str, detail: impl std::fmt::Display) -> Self {
        Self::Unsupported { what, detail: detail.to_string() }
    }

    /// Whether the store said that an object does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Store { source, .. } if source.is_not_found())
    }

    /// Whether an error concerns one entry only: an unreachable store affects all others, too.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Store { source, .. } => source.is_not_found(),
            Self::Cancelled | Self::Local { .. } => false,
            _ => true,
        }
    }
}

/// A text from a repository, for a message: short, and without what a terminal would not show as it is.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_debug).collect()
}

/// Runs work that computes or uses the disk on a thread of its own.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| {
        Err(Error::Local { action: "continue the work", source: std::io::Error::other(error) })
    })
}
