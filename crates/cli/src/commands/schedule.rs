//! `lifeboat schedule …`: creates, shows, pauses and deletes schedules.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod describe;
mod get;
mod page;
mod pause;

use crate::error::CliError;
use crate::objects::get::GetArgs;
use crate::settings::Settings;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Create a schedule
    Create(Box<create::Args>),
    /// List schedules
    Get(GetArgs),
    /// Show schedules in full, with the next times
    Describe(describe::Args),
    /// Pause schedules
    Pause(pause::Args),
    /// Unpause schedules
    Unpause(pause::Args),
    /// Delete schedules; their backups stay
    Delete(delete::Args),
}

pub(crate) async fn run(settings: &Settings, command: Command) -> Result<(), CliError> {
    match command {
        Command::Create(args) => create::run(settings, *args).await,
        Command::Get(args) => get::run(settings, args).await,
        Command::Describe(args) => describe::run(settings, args).await,
        Command::Pause(args) => pause::run(settings, &args, true).await,
        Command::Unpause(args) => pause::run(settings, &args, false).await,
        Command::Delete(args) => delete::run(settings, args).await,
    }
}
