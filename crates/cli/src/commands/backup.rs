//! `lifeboat backup …`: creates, shows, downloads, cancels and deletes backups.

mod cancel;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod describe;
mod download;
mod get;
mod logs;
pub(crate) mod ordered;
pub(crate) mod page;
pub(crate) mod spec;
mod watch;

pub(crate) use create::check_locations;

use crate::error::CliError;
use crate::objects::get::GetArgs;
use crate::settings::Settings;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Create a backup
    Create(Box<create::Args>),
    /// List backups
    Get(GetArgs),
    /// Show backups in full: content, volumes, errors, warnings
    Describe(describe::Args),
    /// Print the log of a backup
    Logs(logs::Args),
    /// Download the objects of a backup as an archive
    Download(download::Args),
    /// Delete backups with their files, snapshots, copies and restores
    Delete(delete::Args),
    /// Cancel a queued or running backup; it ends Failed
    Cancel(cancel::Args),
    /// Follow a backup until it ends
    Watch(watch::Args),
}

pub(crate) async fn run(settings: &Settings, command: Command) -> Result<(), CliError> {
    match command {
        Command::Create(args) => create::run(settings, *args).await,
        Command::Get(args) => get::run(settings, args).await,
        Command::Describe(args) => Box::pin(describe::run(settings, args)).await,
        Command::Logs(args) => logs::run(settings, args).await,
        Command::Download(args) => download::run(settings, args).await,
        Command::Delete(args) => delete::run(settings, args).await,
        Command::Cancel(args) => cancel::run(settings, args).await,
        Command::Watch(args) => watch::run(settings, args).await,
    }
}
