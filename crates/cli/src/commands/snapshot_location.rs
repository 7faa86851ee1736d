//! `lifeboat snapshot-location …`: creates, lists, changes and deletes volume snapshot locations, in which plugins keep
//! snapshots.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod set;

use crate::error::CliError;
use crate::objects::get::GetArgs;
use crate::settings::Settings;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Create a volume snapshot location
    Create(create::Args),
    /// List volume snapshot locations
    Get(GetArgs),
    /// Change a volume snapshot location
    Set(set::Args),
    /// Delete volume snapshot locations; the snapshots stay
    Delete(delete::Args),
}

pub(crate) async fn run(settings: &Settings, command: Command) -> Result<(), CliError> {
    match command {
        Command::Create(args) => create::run(settings, args).await,
        Command::Get(args) => get::run(settings, args).await,
        Command::Set(args) => set::run(settings, args).await,
        Command::Delete(args) => delete::run(settings, args).await,
    }
}
