//! `lifeboat schedule describe [NAME…]`.

use jiff::Timestamp;

use super::page::page;
use crate::commands::backup::describe::{Form, print};
use crate::error::CliError;
use crate::objects::{SCHEDULE, typed};
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Names [default: all]
    names: Vec<String>,
    /// Only objects with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "names")]
    selector: Option<String>,
    /// Show every setting
    #[arg(long)]
    details: bool,
    /// Format of the output
    #[arg(short, long, value_enum, default_value = "plaintext")]
    output: Form,
}

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    let api = SCHEDULE.api(&settings.client().await?, &settings.namespace);
    let found = SCHEDULE.chosen(&api, &args.names, args.selector.as_deref()).await?;
    if found.is_empty() {
        eprintln!("No schedules in namespace {}.", settings.namespace);
        return Ok(());
    }
    let now = Timestamp::now();
    let pages: Result<Vec<_>, CliError> =
        found.iter().map(|object| Ok(page(&typed(object)?, now, args.details))).collect();
    print(args.output, &pages?)
}
