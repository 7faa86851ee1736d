//! Why a repository cannot be used.

use lifeboat_cluster::{ApiError, chain};

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

    /// Whether a later try may succeed without anyone changing settings.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Api(_) | Self::Storage(_) => true,
            Self::Repository(_) => !self.is_missing() && !self.is_password(),
            Self::Unusable(_) | Self::MoversOnly(_) => false,
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
