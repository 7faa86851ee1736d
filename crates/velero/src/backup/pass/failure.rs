//! Why a pass ended without a backup: a category for metrics and logs, and a message that ends in what to do, for the
//! Backup's `failureReason`. Returned by the steps of a pass, used by `attempt`.

use std::io;

use lifeboat_archive::{ArchiveError, NameError};
use lifeboat_cluster::chain;
use tokio::task::JoinError;

use super::summary::TooLarge;

/// Why a pass did not produce a backup.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PassError {
    /// Stopped by the caller, which knows the reason.
    #[error("stopped")]
    Stopped,
    #[error(transparent)]
    Failed(#[from] PassFailure),
}

/// The error after which a pass can write nothing more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PassFailure {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("the archive cannot be written: {}", chain(.0))]
    Archive(ArchiveError),
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    #[error("cannot {action}: {source}")]
    Spool { action: &'static str, source: io::Error },
    #[error("a task that {task} ended: {source}")]
    Task { task: &'static str, source: JoinError },
    #[error("a task of the backup is still running")]
    Unfinished,
}

impl PassFailure {
    /// A word from a fixed list, for metrics and logs.
    pub(crate) fn category(&self) -> &'static str {
        match self {
            Self::Name(_) | Self::Archive(ArchiveError::Name { .. }) => "name",
            Self::Archive(ArchiveError::Upload { source, .. }) => source.category(),
            Self::TooLarge(_) => "too_large",
            Self::Spool { .. } => "disk",
            Self::Task { .. } | Self::Unfinished => "defect",
        }
    }

    /// What the user can do; None if the message says it.
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Name(_) | Self::Archive(ArchiveError::Name { .. }) => Some("choose another name"),
            Self::Archive(ArchiveError::Upload { source, .. }) => Some(
                source.hint().unwrap_or("see the events of the backup's location and the log of its plugin"),
            ),
            Self::TooLarge(_) => None,
            Self::Spool { .. } => {
                Some("the server's scratch space may be full: enlarge it (`lifeboat install --spool-size`)")
            }
            Self::Task { .. } | Self::Unfinished => Some(
                "this is a defect of Lifeboat: report it with the server's log, and create the backup again",
            ),
        }
    }

    /// The failure and what to do.
    pub(crate) fn message(&self) -> String {
        match self.hint() {
            Some(hint) => format!("{self}; {hint}"),
            None => self.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lifeboat_archive::StoreError;
    use rstest::rstest;

    use super::*;

    fn upload(source: StoreError) -> PassFailure {
        PassFailure::Archive(ArchiveError::Upload { key: "b.tar.gz".into(), source: Arc::new(source) })
    }

    #[rstest]
    #[case::storage(
        upload(lifeboat_store::Error::ForeignDirectories { names: vec!["x".into()] }.into()),
        "foreign_directories",
        "use an empty bucket"
    )]
    #[case::plugin(upload(StoreError::TimedOut { action: "write", minutes: 1 }), "timeout", "see the events")]
    #[case::full_disk(
        PassFailure::Spool { action: "make a file", source: io::ErrorKind::StorageFull.into() },
        "disk",
        "--spool-size"
    )]
    #[case::defect(PassFailure::Unfinished, "defect", "report it")]
    fn a_failure_has_a_category_and_names_the_next_step(
        #[case] failure: PassFailure,
        #[case] category: &str,
        #[case] next_step: &str,
    ) {
        assert_eq!(failure.category(), category);
        assert!(failure.message().contains(next_step), "{}", failure.message());
    }
}
