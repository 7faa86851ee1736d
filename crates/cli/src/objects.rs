//! What the commands on backups, restores and schedules share: choosing, listing, showing, following, removing objects.

pub(crate) mod ask;
pub(crate) mod cancel;
pub(crate) mod flags;
pub(crate) mod follow;
pub(crate) mod get;
pub(crate) mod logs;
pub(crate) mod remove;
pub(crate) mod results;
pub(crate) mod show;
pub(crate) mod volumes;

use crate::error::CliError;

pub(crate) use crate::nouns::{
    BACKUP, LOCATION, Noun, REPOSITORY, RESTORE, SCHEDULE, SNAPSHOT_LOCATION, dynamic, number, phase, text,
    typed,
};

/// Which objects a command is for.
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

/// Why an object of the user's was not made; where its name is taken, what to do. `noun` is the command: `backup`.
pub(crate) fn refusal(error: lifeboat_cluster::ApiError, noun: &str, name: &str) -> CliError {
    let exists = error.is_conflict();
    let error = CliError::from(error);
    if exists {
        return error
            .help(format!("choose another name, or delete it first with `lifeboat {noun} delete {name}`"));
    }
    error
}

#[cfg(test)]
pub(crate) mod tests;
