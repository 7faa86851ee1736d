//! Code that `describe` of backups, restores and schedules shares: flags, reading the files that the server stored
//! about a backup or a restore, and printing pages.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::ValueEnum;
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::DynamicObject;
use kube::{Client, ResourceExt};
use lifeboat_api::velero::DownloadTargetKind;
use lifeboat_plan::location::STORE_ANNOTATION;
use lifeboat_plan::volume_plugin::Kind;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::backup::page::Volume;
use crate::download::{Fetcher, TlsArgs};
use crate::error::CliError;
use crate::objects::results::{Fetched, NotFetched, Results};
use crate::objects::show::Page;
use crate::objects::volumes as objects_volumes;
use crate::objects::{LOCATION, Noun};
use crate::printer;
use crate::settings::Settings;

/// How long to wait for a download link. After that the page is printed without the file.
const LINK_TIMEOUT: Duration = Duration::from_secs(30);

/// How many objects are read at the same time; each of them waits for links and files.
const CONCURRENCY: usize = 8;

/// How a description is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    Plaintext,
    Json,
    Yaml,
}

/// Which objects are described, and in which format.
#[derive(clap::Args)]
pub(crate) struct ObjectArgs {
    /// Names [default: all]
    names: Vec<String>,
    /// Only objects with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "names")]
    selector: Option<String>,
    /// Format of the output
    #[arg(short, long, value_enum, default_value = "plaintext")]
    output: Form,
}

/// Flags of `backup describe` and `restore describe`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) objects: ObjectArgs,
    /// Show every object, volume and setting
    #[arg(long)]
    pub(crate) details: bool,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
}

impl ObjectArgs {
    /// Prints a page for each object that the flags choose. `page` reads what belongs to one object and makes its page.
    pub(crate) async fn describe(
        &self,
        settings: &Settings,
        client: &Client,
        noun: Noun,
        page: impl AsyncFn(&DynamicObject) -> Result<Page, CliError>,
    ) -> Result<(), CliError> {
        let api = noun.api(client, &settings.namespace);
        let found = noun.chosen(&api, &self.names, self.selector.as_deref()).await?;
        if found.is_empty() {
            eprintln!("No {} in namespace {}.", noun.many, settings.namespace);
            return Ok(());
        }
        let pages = stream::iter(found.iter().map(|object| page(object)));
        let pages: Vec<Page> = pages.buffered(CONCURRENCY).try_collect().await?;
        print(self.output, &pages)
    }
}

/// Prints one page as itself, several as a list.
fn print(form: Form, pages: &[Page]) -> Result<(), CliError> {
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

/// A backup or a restore whose records are read, and which of its files exist.
pub(crate) struct Subject<'a> {
    pub(crate) kind: Kind,
    pub(crate) name: &'a str,
    /// The location in which its files are stored.
    pub(crate) location: &'a str,
    /// Whether the server has written its files. Before that, waiting for a download link would only run into the
    /// timeout.
    pub(crate) written: bool,
    /// Whether it has errors or warnings.
    pub(crate) results: bool,
    /// Whether plugins started operations for it.
    pub(crate) operations: bool,
}

/// What the cluster and the bucket hold about a backup or a restore, beside its object. A file that cannot be read is
/// reported in the description.
#[derive(Default)]
pub(crate) struct Records {
    /// The store that the server uses for the location now.
    pub(crate) store: Option<String>,
    pub(crate) results: Fetched<Results>,
    pub(crate) volumes: Fetched<Vec<Volume>>,
    pub(crate) resources: Fetched<BTreeMap<String, Vec<String>>>,
    pub(crate) operations: Fetched<Vec<Value>>,
    /// VolumePluginBackups or VolumePluginRestores.
    pub(crate) plugin_volumes: Fetched<Vec<Value>>,
}

impl Records {
    pub(crate) async fn gather(
        settings: &Settings,
        client: &Client,
        subject: Subject<'_>,
        args: &Args,
    ) -> Result<Self, CliError> {
        let Subject { kind, name, location, written, .. } = subject;
        let namespace = &settings.namespace;
        let fetcher = Fetcher::new(client, namespace, location, &args.tls, LINK_TIMEOUT).await?;
        let files = Files::of(kind);
        let details = written && args.details;
        let (results, volumes, resources, operations) = tokio::join!(
            fetch(&fetcher, written && subject.results, files.results, name),
            fetch(&fetcher, written, files.volumes, name),
            fetch(&fetcher, details, files.resources, name),
            fetch(&fetcher, details && subject.operations, files.operations, name),
        );
        let plugin_volumes = objects_volumes::fetch(client, namespace, kind, name).await;
        let store = store_of(settings, client, location).await;
        Ok(Self { store, results, volumes, resources, operations, plugin_volumes })
    }
}

/// The files that are downloaded for a description.
struct Files {
    results: DownloadTargetKind,
    volumes: DownloadTargetKind,
    resources: DownloadTargetKind,
    operations: DownloadTargetKind,
}

impl Files {
    fn of(kind: Kind) -> Self {
        match kind {
            Kind::Backup => Self {
                results: DownloadTargetKind::BackupResults,
                volumes: DownloadTargetKind::BackupVolumeInfos,
                resources: DownloadTargetKind::BackupResourceList,
                operations: DownloadTargetKind::BackupItemOperations,
            },
            Kind::Restore => Self {
                results: DownloadTargetKind::RestoreResults,
                volumes: DownloadTargetKind::RestoreVolumeInfo,
                resources: DownloadTargetKind::RestoreResourceList,
                operations: DownloadTargetKind::RestoreItemOperations,
            },
        }
    }
}

/// Downloads a file if it is wanted.
async fn fetch<T: DeserializeOwned>(
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

/// The store that the server uses for a location: a plugin's or the built-in one. None if the server has not recorded it
/// or the location cannot be read.
async fn store_of(settings: &Settings, client: &Client, location: &str) -> Option<String> {
    if location.is_empty() {
        return None;
    }
    let found = LOCATION.api(client, &settings.namespace).get_opt(location).await.ok().flatten()?;
    found.annotations().get(STORE_ANNOTATION).cloned()
}
