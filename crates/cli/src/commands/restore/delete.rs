//! `lifeboat restore delete`: removes the records of restores, and by the server their files in storage.

use crate::error::CliError;
pub(crate) use crate::objects::remove::DeleteArgs as Args;
use crate::objects::{RESTORE, remove};
use crate::settings::Settings;

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    remove::run(settings, RESTORE, &args, "what it restored stays").await
}
