//! `lifeboat repo …`: repositories of volume data and their maintenance, through the BackupRepository objects of the
//! cluster. `lifeboat repository` works on the content of a repository.

pub(crate) mod get;
pub(crate) mod maintain;

use crate::error::CliError;
use crate::objects::get::GetArgs;
use crate::settings::Settings;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// List the repositories of volume data
    Get(GetArgs),
    /// Run maintenance now: free the space of deleted backups and check the repository
    Maintain(maintain::Args),
}

pub(crate) async fn run(settings: &Settings, command: Command) -> Result<(), CliError> {
    match command {
        Command::Get(args) => get::run(settings, args).await,
        Command::Maintain(args) => maintain::run(settings, &args).await,
    }
}
