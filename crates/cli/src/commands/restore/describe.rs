//! `lifeboat restore describe [NAME…]`: gathers what there is about restores and prints the page of each.

use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::{Client, ResourceExt};
use lifeboat_api::velero::{DownloadTargetKind, Restore};
use lifeboat_plan::velero::volume_plugin::Kind;

use super::location_of;
use super::page::{Facts, page};
use crate::commands::backup::describe::{AT_ONCE, Form, PATIENCE, fetch, print, store_of};
use crate::download::{Fetcher, TlsArgs};
use crate::error::CliError;
use crate::objects::show::Page;
use crate::objects::volumes as objects_volumes;
use crate::objects::{RESTORE, typed};
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Names [default: all]
    names: Vec<String>,
    /// Only objects with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "names")]
    selector: Option<String>,
    /// Show every object, volume and setting
    #[arg(long)]
    details: bool,
    /// Format of the output
    #[arg(short, long, value_enum, default_value = "plaintext")]
    output: Form,
    #[command(flatten)]
    tls: TlsArgs,
}

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    let client = settings.client().await?;
    let api = RESTORE.api(&client, &settings.namespace);
    let found = RESTORE.chosen(&api, &args.names, args.selector.as_deref()).await?;
    if found.is_empty() {
        eprintln!("No restores in namespace {}.", settings.namespace);
        return Ok(());
    }
    let facts = found.iter().map(|object| gather(settings, &client, object, &args));
    let facts: Vec<Facts> = stream::iter(facts).buffered(AT_ONCE).try_collect().await?;
    let pages: Vec<Page> = facts.iter().map(|facts| page(facts, Timestamp::now(), args.details)).collect();
    print(args.output, &pages)
}

async fn gather(
    settings: &Settings,
    client: &Client,
    object: &DynamicObject,
    args: &Args,
) -> Result<Facts, CliError> {
    let restore: Restore = typed(object)?;
    let name = restore.name_any();
    let status = restore.status.clone().unwrap_or_default();
    let location = location_of(settings, client, object).await;
    let fetcher = Fetcher::new(client, &settings.namespace, &location, &args.tls, PATIENCE).await?;
    // Files are written when the objects are restored.
    let written = status.start_timestamp.is_some() && restore.phase().as_str() != "InProgress";
    let said = status.errors.unwrap_or_default() + status.warnings.unwrap_or_default() > 0;
    let worked = status.restore_item_operations_attempted.unwrap_or_default() > 0;
    let (results, volumes, resources, operations) = tokio::join!(
        fetch(&fetcher, written && said, DownloadTargetKind::RestoreResults, &name),
        fetch(&fetcher, written, DownloadTargetKind::RestoreVolumeInfo, &name),
        fetch(&fetcher, written && args.details, DownloadTargetKind::RestoreResourceList, &name),
        fetch(&fetcher, written && args.details && worked, DownloadTargetKind::RestoreItemOperations, &name),
    );
    let plugin_volumes = objects_volumes::fetch(client, &settings.namespace, Kind::Restore, &name).await;
    let store = store_of(settings, client, &location).await;
    Ok(Facts { restore, location, store, results, volumes, resources, operations, plugin_volumes })
}
