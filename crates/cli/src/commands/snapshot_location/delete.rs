//! `lifeboat snapshot-location delete`: deletes snapshot locations. The snapshots stay, but without their location they
//! can be neither restored nor deleted.

use crate::error::CliError;
pub(crate) use crate::objects::remove::DeleteArgs as Args;
use crate::objects::{SNAPSHOT_LOCATION, remove};
use crate::settings::Settings;

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    let stays = "the snapshots taken there stay, and cannot be restored or deleted without it";
    remove::run(settings, SNAPSHOT_LOCATION, &args, stays).await
}
