//! `lifeboat restore …`: creates, shows, cancels and deletes restores.

mod cancel;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod describe;
mod dry_run;
mod get;
mod logs;
mod page;
mod spec;
mod watch;

use kube::Client;
use kube::api::DynamicObject;

use crate::error::CliError;
use crate::objects::get::GetArgs;
use crate::objects::{BACKUP, text};
use crate::settings::Settings;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Restore from a backup
    Create(Box<create::Args>),
    /// List restores
    Get(GetArgs),
    /// Show restores in full: items, volumes, errors, warnings
    Describe(describe::Args),
    /// Print the log of a restore
    Logs(logs::Args),
    /// Delete the records of restores; restored objects stay
    Delete(delete::Args),
    /// Cancel a running restore; it ends Failed, and restored objects stay
    Cancel(cancel::Args),
    /// Follow a restore until it ends
    Watch(watch::Args),
}

pub(crate) async fn run(settings: &Settings, command: Command) -> Result<(), CliError> {
    match command {
        Command::Create(args) => Box::pin(create::run(settings, *args)).await,
        Command::Get(args) => get::run(settings, args).await,
        Command::Describe(args) => Box::pin(describe::run(settings, args)).await,
        Command::Logs(args) => logs::run(settings, args).await,
        Command::Delete(args) => delete::run(settings, args).await,
        Command::Cancel(args) => cancel::run(settings, args).await,
        Command::Watch(args) => watch::run(settings, args).await,
    }
}

/// The location of the restore's files, which is that of its backup.
async fn location_of(settings: &Settings, client: &Client, restore: &DynamicObject) -> String {
    let backup = text(restore, "/spec/backupName");
    let found = BACKUP.api(client, &settings.namespace).get_opt(&backup).await;
    found.ok().flatten().map(|backup| text(&backup, "/spec/storageLocation")).unwrap_or_default()
}
