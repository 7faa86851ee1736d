//! `lifeboat restore watch NAME`: what --wait shows, for a restore that is there already.

use crate::error::CliError;
use crate::objects::RESTORE;
use crate::objects::follow::follow;
use crate::printer;
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the restore
    name: String,
}

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    let api = RESTORE.api(&settings.client().await?, &settings.namespace);
    RESTORE.find(&api, &args.name).await?;
    printer::line(&follow(RESTORE, &api, &args.name).await?);
    Ok(())
}
