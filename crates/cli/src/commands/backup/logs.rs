//! `lifeboat backup logs NAME`.

use lifeboat_api::velero::DownloadTargetKind;

use crate::download::LinkArgs;
use crate::error::CliError;
use crate::objects::{BACKUP, logs, text};
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the backup
    name: String,
    #[command(flatten)]
    link: LinkArgs,
}

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    let client = settings.client().await?;
    let found = BACKUP.find(&BACKUP.api(&client, &settings.namespace), &args.name).await?;
    let location = text(&found, "/spec/storageLocation");
    let request = logs::LogRequest {
        noun: BACKUP,
        object: &found,
        kind: DownloadTargetKind::BackupLog,
        location: &location,
    };
    logs::print(settings, &client, request, &args.link).await
}
