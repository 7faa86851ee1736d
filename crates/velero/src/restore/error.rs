//! Why a run of a Restore, or its dry run, cannot continue. The message is shown in the Restore's `failureReason`; it
//! is upstream's where upstream has one.

use std::path::PathBuf;

use lifeboat_archive::{NameError, SpoolError, StoreError};
use lifeboat_cluster::{ApiError, chain};
use lifeboat_plan::items::filter::FilterError;

use super::validate::{ModifierError, PolicyError};
use crate::locations::{self, LocationError};

/// Why a run ended without a result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RestoreError {
    #[error("the restore was cancelled; what it had created stays (label velero.io/restore-name)")]
    Cancelled,
    /// Only logged: the Restore belongs to another run.
    #[error("the Restore is gone, or another server continues it")]
    Overtaken,
    #[error("restore execution failed: {0}")]
    Preparation(Box<Self>),
    #[error("backup {0} is gone; choose another one (`lifeboat backup get`)")]
    BackupGone(String),
    #[error("{}", .0.message())]
    Api(#[from] ApiError),
    #[error("{}", .0.chain())]
    Location(#[from] LocationError),
    #[error("error downloading backup: {0}")]
    Download(String),
    #[error("{}", chain(.0))]
    Archive(#[from] SpoolError),
    #[error("cannot {action} {key}: {cause}")]
    Document { action: &'static str, key: String, cause: String },
    #[error("error uploading log file to backup storage: {0}")]
    LogUpload(String),
    #[error(
        "cannot write a log in {}: {source}; the server's scratch space may be full: enlarge it (`lifeboat install --spool-size`)",
        .directory.display()
    )]
    Log { directory: PathBuf, source: std::io::Error },
    /// A name that cannot be part of a file name.
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Modifiers(#[from] ModifierError),
    #[error(transparent)]
    Policies(#[from] PolicyError),
    #[error(transparent)]
    Spec(#[from] FilterError),
    #[error("invalid restore {0}")]
    PolicyFilter(FilterError),
}

impl RestoreError {
    /// A word from a fixed list, for metrics and logs.
    pub(super) fn category(&self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Overtaken => "overtaken",
            Self::Preparation(cause) => cause.category(),
            Self::BackupGone(_) => "backup-gone",
            Self::Api(error) => error.category(),
            Self::Location(_) | Self::Download(_) | Self::LogUpload(_) => "storage",
            Self::Archive(_) | Self::Document { .. } => "archive",
            Self::Log { .. } => "disk",
            Self::Name(_)
            | Self::Modifiers(_)
            | Self::Policies(_)
            | Self::Spec(_)
            | Self::PolicyFilter(_) => "spec",
        }
    }

    /// A file of the restore or of its backup that cannot be read or written.
    pub(super) fn document(action: &'static str, key: &str, error: &StoreError) -> Self {
        Self::Document { action, key: key.to_owned(), cause: locations::message(error) }
    }

    /// A file whose content does not match its format.
    pub(super) fn format(action: &'static str, key: &str, error: &dyn std::fmt::Display) -> Self {
        Self::Document { action, key: key.to_owned(), cause: error.to_string() }
    }
}
