//! `lifeboat schedule describe [NAME…]`.

use jiff::Timestamp;

use super::page::page;
use crate::commands::describe::ObjectArgs;
use crate::error::CliError;
use crate::objects::{SCHEDULE, typed};
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    objects: ObjectArgs,
    /// Show every setting
    #[arg(long)]
    details: bool,
}

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    let client = settings.client().await?;
    let now = Timestamp::now();
    args.objects
        .describe(settings, &client, SCHEDULE, async |object| Ok(page(&typed(object)?, now, args.details)))
        .await
}
