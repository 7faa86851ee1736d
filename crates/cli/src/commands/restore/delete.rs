//! `lifeboat restore delete`: deletes Restore objects; the server deletes their files in storage.

use crate::error::CliError;
pub(crate) use crate::objects::remove::DeleteArgs as Args;
use crate::objects::{RESTORE, remove};
use crate::settings::Settings;

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    remove::run(settings, RESTORE, &args, "restored objects stay").await
}
