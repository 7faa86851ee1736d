//! `lifeboat restore cancel NAME…`: asks the server, by an annotation, to stop. Stock clients know no phase for that: the restore
//! ends Failed, with the reason, and what it has restored stays.

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
