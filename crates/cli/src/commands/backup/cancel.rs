//! `lifeboat backup cancel NAME…`: asks the server, by an annotation, to stop. Stock clients know no phase for that: the backup
//! ends Failed, with the reason.

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
