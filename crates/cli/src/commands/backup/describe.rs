//! `lifeboat backup describe [NAME…]`: gathers what there is about backups and prints the page of each.

use std::time::Duration;

use clap::ValueEnum;
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use lifeboat_api::velero::names::{BACKUP_NAME, BACKUP_UID};
use lifeboat_api::velero::{Backup, DeleteBackupRequest, DownloadTargetKind};
use lifeboat_cluster::Attempt;
use lifeboat_plan::label;
use lifeboat_plan::velero::location::STORE_ANNOTATION;
use lifeboat_plan::velero::volume_plugin::Kind;
use serde::de::DeserializeOwned;

use super::page::{Facts, page};
use crate::download::{Fetcher, TlsArgs};
use crate::error::CliError;
use crate::objects::results::{Fetched, NotFetched};
use crate::objects::show::Page;
use crate::objects::volumes as objects_volumes;
use crate::objects::{BACKUP, LOCATION, typed};
use crate::printer;
use crate::settings::Settings;

/// How long a link is waited for: a description without is better than none.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How many are gathered at the same time: each waits for links and files.
pub(crate) const AT_ONCE: usize = 8;

/// How a description is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    Plaintext,
    Json,
    Yaml,
}

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
    let api = BACKUP.api(&client, &settings.namespace);
    let found = BACKUP.chosen(&api, &args.names, args.selector.as_deref()).await?;
    if found.is_empty() {
        eprintln!("No backups in namespace {}.", settings.namespace);
        return Ok(());
    }
    let facts = found.iter().map(|object| gather(settings, &client, object, &args));
    let facts: Vec<Facts> = stream::iter(facts).buffered(AT_ONCE).try_collect().await?;
    let pages: Vec<Page> = facts.iter().map(|facts| page(facts, Timestamp::now(), args.details)).collect();
    print(args.output, &pages)
}

/// One page as itself, several as a list.
pub(crate) fn print(form: Form, pages: &[Page]) -> Result<(), CliError> {
    let value = match pages {
        [one] => one.to_json(),
        many => many.iter().map(Page::to_json).collect(),
    };
    match form {
        Form::Json => printer::line(&printer::json(&value)?),
        Form::Yaml => printer::text(&printer::yaml(&value)?),
        Form::Plaintext => {
            let texts: Vec<_> = pages.iter().map(Page::to_text).collect();
            printer::text(&texts.join("\n----\n\n"));
        }
    }
    Ok(())
}

async fn gather(
    settings: &Settings,
    client: &Client,
    object: &DynamicObject,
    args: &Args,
) -> Result<Facts, CliError> {
    let backup: Backup = typed(object)?;
    let name = backup.name_any();
    let deletions = deletions(settings, client, &backup).await?;
    let status = backup.status.clone().unwrap_or_default();
    let location = backup.spec.storage_location.clone().unwrap_or_default();
    let fetcher = Fetcher::new(client, &settings.namespace, &location, &args.tls, PATIENCE).await?;
    // Before its objects are written a backup has no files, and a link would be waited for in vain.
    let written =
        status.start_timestamp.is_some() && !matches!(backup.phase().as_str(), "InProgress" | "Deleting");
    let said = status.errors.unwrap_or_default() + status.warnings.unwrap_or_default() > 0;
    let worked = status.backup_item_operations_attempted.unwrap_or_default() > 0;
    let (results, volumes, resources, operations) = tokio::join!(
        fetch(&fetcher, written && said, DownloadTargetKind::BackupResults, &name),
        fetch(&fetcher, written, DownloadTargetKind::BackupVolumeInfos, &name),
        fetch(&fetcher, written && args.details, DownloadTargetKind::BackupResourceList, &name),
        fetch(&fetcher, written && args.details && worked, DownloadTargetKind::BackupItemOperations, &name),
    );
    let plugin_volumes = objects_volumes::fetch(client, &settings.namespace, Kind::Backup, &name).await;
    let store = store_of(settings, client, &location).await;
    Ok(Facts { backup, store, deletions, results, volumes, resources, operations, plugin_volumes })
}

/// Which store the server uses for a location: a plugin's or the built-in one. None where nobody can say it now.
pub(crate) async fn store_of(settings: &Settings, client: &Client, location: &str) -> Option<String> {
    if location.is_empty() {
        return None;
    }
    let found = LOCATION.api(client, &settings.namespace).get_opt(location).await.ok().flatten()?;
    found.annotations().get(STORE_ANNOTATION).cloned()
}

/// A file, where it is wanted. What goes wrong is part of the description.
pub(crate) async fn fetch<T: DeserializeOwned>(
    fetcher: &Fetcher,
    wanted: bool,
    kind: DownloadTargetKind,
    name: &str,
) -> Fetched<T> {
    if !wanted {
        return None;
    }
    fetcher.json(kind, name).await.map_err(NotFetched::File).transpose()
}

async fn deletions(
    settings: &Settings,
    client: &Client,
    backup: &Backup,
) -> Result<Vec<DeleteBackupRequest>, CliError> {
    let api: Api<DeleteBackupRequest> = Api::namespaced(client.clone(), &settings.namespace);
    let (name, uid) = (label::value(&backup.name_any()), backup.uid().unwrap_or_default());
    let of_it = ListParams::default().labels(&format!("{BACKUP_NAME}={name},{BACKUP_UID}={uid}"));
    Ok(api.list(&of_it).await.attempt("list DeleteBackupRequests")?.items)
}
