//! `lifeboat restore watch NAME`: shows what `create --wait` shows, for a restore that exists.

use crate::error::CliError;
use crate::objects::RESTORE;
use crate::objects::follow::watch;
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the restore
    name: String,
}

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    watch(settings, RESTORE, &args.name).await
}
