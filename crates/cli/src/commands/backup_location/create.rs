//! `lifeboat backup-location create NAME`: creates a location and, with --wait, reports whether the server found it
//! Available.

use std::time::Duration;

use kube::api::{DynamicObject, PostParams};
use lifeboat_cluster::Attempt;

use super::spec::{self, LocationArgs};
use super::{Freshness, api, wait_until_available};
use crate::args::{Format, object_name};
use crate::error::CliError;
use crate::objects::create::refusal;
use crate::printer;
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the location
    #[arg(value_parser = object_name)]
    name: String,
    #[command(flatten)]
    location: LocationArgs,
    /// Wait until the server has validated the location; fails if it is not Available
    #[arg(long)]
    wait: bool,
    /// Seconds to wait
    #[arg(long, default_value_t = 60, value_name = "SECONDS", value_parser = crate::args::seconds)]
    timeout: u64,
    /// Print the object instead of creating it
    #[arg(short, long, value_enum)]
    output: Option<Format>,
}

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    let object = spec::object(&settings.namespace, &args.name, &args.location)?;
    if let Some(format) = args.output {
        return printer::object(&object, format);
    }
    let client = settings.client().await?;
    let object: DynamicObject = serde_json::from_value(object)
        .map_err(|error| CliError::failed("cannot make the location", error))?;
    let before = Freshness::of(&client, &settings.namespace, &args.name).await?;
    let created = api(&client, &settings.namespace).create(&PostParams::default(), &object).await;
    created
        .attempt(format!("create BackupStorageLocation {}", args.name))
        .map_err(|error| refusal(error, "backup-location", &args.name))?;
    printer::line(&format!("Backup storage location {:?} created.", args.name));
    if args.wait {
        let limit = Duration::from_secs(args.timeout);
        wait_until_available(&client, &settings.namespace, &args.name, &before, limit).await?;
        printer::line("It is available.");
    }
    Ok(())
}
