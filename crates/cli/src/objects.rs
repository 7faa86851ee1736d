//! Code that the commands on backups, restores and schedules share: selecting, listing, describing, creating, following
//! and deleting objects.

pub(crate) mod ask;
pub(crate) mod cancel;
pub(crate) mod create;
pub(crate) mod flags;
pub(crate) mod follow;
pub(crate) mod get;
pub(crate) mod logs;
pub(crate) mod remove;
pub(crate) mod results;
pub(crate) mod show;
pub(crate) mod volumes;

pub(crate) use crate::nouns::{
    BACKUP, LOCATION, Noun, REPOSITORY, RESTORE, SCHEDULE, SNAPSHOT_LOCATION, dynamic, number, phase, text,
    typed,
};

/// The objects that a command is applied to.
#[derive(clap::Args)]
pub(crate) struct Selection {
    /// Names
    #[arg(required_unless_present_any = ["all", "selector"])]
    pub(crate) names: Vec<String>,
    /// All objects
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,
    /// All objects with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with_all = ["names", "all"])]
    pub(crate) selector: Option<String>,
}

#[cfg(test)]
pub(crate) mod tests;
