//! `lifeboat backup-location create NAME`: makes a location and, unless told otherwise, waits for the server's verdict.

use std::time::Duration;

use kube::api::{DynamicObject, PostParams};
use lifeboat_cluster::Attempt;

use super::spec::{self, LocationArgs};
use super::{api, wait_until_available};
use crate::args::Output;
use crate::error::CliError;
use crate::printer;
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the location
    name: String,
    #[command(flatten)]
    location: LocationArgs,
    /// Wait until the server has looked at the bucket; fails where it cannot be used
    #[arg(long)]
    wait: bool,
    /// How many seconds to wait
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    timeout: u64,
    /// Print the object instead of creating it
    #[arg(short, long, value_enum)]
    output: Option<Output>,
}

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    let object = spec::object(&settings.namespace, &args.name, &args.location)?;
    match args.output {
        Some(Output::Json) => {
            println!("{}", printer::json(&object)?);
            return Ok(());
        }
        Some(Output::Yaml) => {
            print!("{}", printer::yaml(&object)?);
            return Ok(());
        }
        _ => {}
    }
    let client = settings.client().await?;
    let object: DynamicObject = serde_json::from_value(object)
        .map_err(|error| CliError::failed("cannot make the location", error))?;
    api(&client, &settings.namespace)
        .create(&PostParams::default(), &object)
        .await
        .attempt(format!("create BackupStorageLocation {}", args.name))?;
    println!("Backup storage location {:?} created.", args.name);
    if args.wait {
        wait_until_available(&client, &settings.namespace, &args.name, Duration::from_secs(args.timeout))
            .await?;
        println!("It is available.");
    }
    Ok(())
}
