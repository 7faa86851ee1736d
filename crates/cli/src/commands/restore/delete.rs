//! `lifeboat restore delete`: removes the records of restores, and by the server their files in storage.

use crate::error::CliError;
use crate::objects::{RESTORE, Selection, remove};
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    selection: Selection,
    /// Do not ask for confirmation
    #[arg(long)]
    confirm: bool,
}

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    remove::run(settings, RESTORE, &args.selection, args.confirm, "what it restored stays").await
}
