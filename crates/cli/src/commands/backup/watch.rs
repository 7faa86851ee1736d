//! `lifeboat backup watch NAME`: shows what `create --wait` shows, for a backup that exists.

use crate::error::CliError;
use crate::objects::BACKUP;
use crate::objects::follow::watch;
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the backup
    name: String,
}

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    watch(settings, BACKUP, &args.name).await
}
