//! Why a repository cannot be used.

use lifeboat_cluster::{ApiError, chain};
use lifeboat_repository::Retry;

/// Why a repository cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryProblem {
    /// Its storage cannot be reached at the moment.
    #[error("{0}")]
    Storage(String),
    #[error(transparent)]
    Api(#[from] ApiError),
    /// Only movers can open it, for this reason.
    #[error("the server cannot open it: {0}")]
    MoversOnly(String),
    /// Its settings are wrong and have to be changed.
    #[error("{0}")]
    Unusable(String),
    #[error("{}", message(.0))]
    Repository(#[from] lifeboat_repository::Error),
}

impl RepositoryProblem {
    /// The problem with its causes, for people.
    pub fn chain(&self) -> String {
        chain(self)
    }

    /// Whether the password is missing or wrong.
    pub fn is_password(&self) -> bool {
        matches!(self, Self::Repository(lifeboat_repository::Error::WrongPassword { .. }))
    }

    /// Whether the repository does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Repository(lifeboat_repository::Error::NoRepository { .. }))
    }

    /// A word from a fixed list, for metrics and logs.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Storage(_) => "storage",
            Self::Api(error) => error.category(),
            Self::MoversOnly(_) => "movers-only",
            Self::Unusable(_) => "settings",
            Self::Repository(error) => error.category(),
        }
    }

    /// When a later try may succeed: never without someone changing settings.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Repository(_) if self.is_missing() || self.is_password() => Retry::Never,
            Self::Api(_) | Self::Storage(_) | Self::Repository(_) => Retry::Later,
            Self::Unusable(_) | Self::MoversOnly(_) => Retry::Never,
        }
    }
}

/// An error of the repository engine with its causes and a hint.
fn message(error: &lifeboat_repository::Error) -> String {
    let text = chain(error);
    match error.hint() {
        Some(hint) => format!("{text}; {hint}"),
        None => text,
    }
}

/// An error of storage with its causes, where they add something, and a hint.
pub fn storage_message(error: &lifeboat_store::Error) -> String {
    format!("{}; {}", chain(error), error.hint())
}
