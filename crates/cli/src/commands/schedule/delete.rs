//! `lifeboat schedule delete`: deletes schedules. Their backups stay, unless the schedule owns them.

use crate::error::CliError;
pub(crate) use crate::objects::remove::DeleteArgs as Args;
use crate::objects::{SCHEDULE, remove};
use crate::settings::Settings;

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    remove::run(settings, SCHEDULE, &args, "the data of its backups stays").await
}
