//! `lifeboat schedule delete`: the backups stay, unless the schedule owns them.

use crate::error::CliError;
use crate::objects::{SCHEDULE, Selection, remove};
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
    remove::run(settings, SCHEDULE, &args.selection, args.confirm, "the data of its backups stays").await
}
