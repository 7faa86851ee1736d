//! `lifeboat backup watch NAME`: what --wait shows, for a backup that is there already.

use crate::error::CliError;
use crate::objects::BACKUP;
use crate::objects::follow::follow;
use crate::printer;
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the backup
    name: String,
}

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    let api = BACKUP.api(&settings.client().await?, &settings.namespace);
    BACKUP.find(&api, &args.name).await?;
    printer::line(&follow(BACKUP, &api, &args.name).await?);
    Ok(())
}
