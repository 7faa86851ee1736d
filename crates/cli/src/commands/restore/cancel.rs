//! `lifeboat restore cancel NAME…`: sets the annotation that asks the server to stop the restore. Stock clients know no
//! phase for a cancelled restore, so it ends Failed with a reason. Objects restored so far stay.

use crate::error::CliError;
use crate::objects::{RESTORE, cancel};
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Names of the restores
    #[arg(required = true)]
    names: Vec<String>,
}

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    cancel::run(settings, RESTORE, &args.names).await
}
