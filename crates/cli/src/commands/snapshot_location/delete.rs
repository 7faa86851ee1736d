//! `lifeboat snapshot-location delete`: the snapshots stay; while their location is missing they can neither be restored nor
//! deleted.

use crate::error::CliError;
use crate::objects::{SNAPSHOT_LOCATION, Selection, remove};
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
    let stays = "the snapshots taken there stay, and cannot be restored or deleted without it";
    remove::run(settings, SNAPSHOT_LOCATION, &args.selection, args.confirm, stays).await
}
