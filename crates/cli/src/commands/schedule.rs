//! `lifeboat schedule …`: backups at regular times.

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
    /// Make a schedule
    Create(Box<create::Args>),
    /// List schedules
    Get(GetArgs),
    /// Show what schedules back up, and when next
    Describe(describe::Args),
    /// Make no backups for now
    Pause(pause::Args),
    /// Make backups again
    Unpause(pause::Args),
    /// Delete schedules; the backups they made stay
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
