//! The outcome of one item, and its messages. A restore turns it into results, the resource list and log lines; a dry
//! run into a line of the plan.

use lifeboat_plan::items::trust::{self, Distrust};

/// The outcome of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemOutcome {
    Created,
    /// The object existed and was changed.
    Updated,
    /// The object existed; only the labels that name backup and restore had to be changed.
    Labelled,
    /// The object existed, and nothing had to be changed.
    Same,
    /// The object existed, differs, and was not changed.
    Different {
        warning: String,
    },
    /// The object existed, and the API server refused to change it; the notes have the reason.
    NotUpdated,
    Skipped(SkipReason),
    /// It is an additional item that the Restore excludes.
    NotSelected(String),
    /// Its namespace cannot be used, which is reported once for the namespace.
    NoNamespace(String),
    /// It was not restored; the notes have the error.
    Failed,
}

impl ItemOutcome {
    /// Whether the object exists in the cluster afterwards.
    pub fn is_in_cluster(&self) -> bool {
        matches!(
            self,
            Self::Created
                | Self::Updated
                | Self::Labelled
                | Self::Same
                | Self::Different { .. }
                | Self::NotUpdated
        )
    }
}

/// Why a selected item is not restored although nothing is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// A pod or a Job that has completed.
    Completed,
    MirrorPod,
    /// A pod whose Job is restored too.
    OfRestoredJob,
    /// A volume whose claim gets a new one.
    Provisioned,
    /// Objects of this type are never created by a restore.
    NeverCreated,
    LeftOutByAction(String),
    /// A key of the server, or a part of a mover.
    Own,
    /// Its location is untrusted.
    Untrusted {
        location: String,
        cause: Distrust,
    },
}

impl SkipReason {
    /// The line in the log of a restore; upstream's where upstream has one.
    pub fn log_line(&self) -> String {
        match self {
            Self::Completed => "it is complete - skipping".to_owned(),
            Self::MirrorPod => "Not restoring pod because it's a mirror pod".to_owned(),
            Self::OfRestoredJob => {
                "Not restoring pod because its Job is restored and makes a new one".to_owned()
            }
            Self::LeftOutByAction(action) => format!("left out by action {action}"),
            other => other.reason(),
        }
    }

    /// The reason that a dry run shows.
    pub fn reason(&self) -> String {
        match self {
            Self::Completed => "it is complete".to_owned(),
            Self::MirrorPod => "it is a mirror pod".to_owned(),
            Self::OfRestoredJob => "its Job is restored and makes a new one".to_owned(),
            Self::Provisioned => "its claim gets a new volume".to_owned(),
            Self::NeverCreated => "objects of this type are never restored".to_owned(),
            Self::LeftOutByAction(action) => format!("{action} leaves it out"),
            Self::Own => {
                "it is a key of Lifeboat or belongs to a mover; a restore that names its namespace and its type has it"
                    .to_owned()
            }
            Self::Untrusted { location, cause } => {
                format!("location {location} is untrusted: {cause} (--allow-privileged restores it)")
            }
        }
    }

    /// The warning of a restore; None if the reason is only logged.
    pub fn warning(&self, item: &str) -> Option<String> {
        match self {
            Self::Untrusted { location, cause } => Some(trust::left_out(item, location, cause)),
            _ => None,
        }
    }
}

/// Warnings and errors of one item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    pub warnings: Vec<String>,
    pub errors: Vec<String>,
}

impl Notes {
    pub fn warn(&mut self, message: impl Into<String>) {
        self.warnings.push(message.into());
    }

    pub fn error(&mut self, message: impl Into<String>) {
        self.errors.push(message.into());
    }

    /// Adds an error that ends the item.
    pub fn fail(&mut self, message: impl Into<String>) -> ItemOutcome {
        self.error(message);
        ItemOutcome::Failed
    }
}
