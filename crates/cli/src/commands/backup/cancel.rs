//! `lifeboat backup cancel NAME…`: sets the annotation that asks the server to stop the backup. Stock clients know no
//! phase for a cancelled backup, so it ends Failed with a reason.

use crate::error::CliError;
use crate::objects::{BACKUP, cancel};
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Names of the backups
    #[arg(required = true)]
    names: Vec<String>,
}

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    cancel::run(settings, BACKUP, &args.names).await
}
