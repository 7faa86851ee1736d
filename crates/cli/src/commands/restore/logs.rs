//! `lifeboat restore logs NAME`.

use lifeboat_api::velero::DownloadTargetKind;

use super::location_of;
use crate::download::LinkArgs;
use crate::error::CliError;
use crate::objects::{RESTORE, logs};
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the restore
    name: String,
    #[command(flatten)]
    link: LinkArgs,
}

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    let client = settings.client().await?;
    let found = RESTORE.find(&RESTORE.api(&client, &settings.namespace), &args.name).await?;
    let location = location_of(settings, &client, &found).await;
    let request = logs::LogRequest {
        noun: RESTORE,
        object: &found,
        kind: DownloadTargetKind::RestoreLog,
        location: &location,
    };
    logs::print(settings, &client, request, &args.link).await
}
