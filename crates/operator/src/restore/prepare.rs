//! Opens and reads all that the items of a Restore need: its backup and location, the archive in a spool, what the backup says of
//! volumes, the compiled spec, and the tools of the pipeline. Called for a run and for a preview; creates nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::ResourceExt;
use lifeboat_api::velero::{Backup, Restore};
use lifeboat_archive::documents::BackupVolumeInfo;
use lifeboat_archive::{BackupFiles, Level, RunLog, Spool};
use lifeboat_cluster::discovery;
use lifeboat_plan::catalogue::{Catalogue, GroupResource};
use lifeboat_plan::restore::native::doubled;
use lifeboat_plan::restore::trust::UNTRUSTED;
use lifeboat_plan::restore::validate::compile;
use lifeboat_plan::restore::versions::{Wishes, choose};
use lifeboat_plan::restore::volumes::{DataIn, by_volume};
use lifeboat_plugin::Registry;
use lifeboat_plugin::actions::Intent;

use super::after::operation_timeout;
use super::handler::{
    Begun, Filler, Job, Journal, NativeVolumes, Owner, PreviewedVolumes, Times, Tools, VolumeMaker,
};
use super::volume_data::{self, data};
use super::{gather, status, validate};
use crate::context::Context;
use crate::locations::{self, Location};

/// The name of the backup that is restored.
pub(super) fn job_backup(restore: &Restore) -> &str {
    restore.spec.backup_name.as_deref().unwrap_or_default()
}

/// Items that cannot be read, with their namespaces.
type Unreadable = Vec<(Option<String>, String)>;

/// What a run begins with.
pub(super) struct Prepared {
    pub(super) location: Location,
    pub(super) job: Job,
    /// What the backup says of its volumes.
    pub(super) volumes: Vec<BackupVolumeInfo>,
    pub(super) unreadable: Unreadable,
    pub(super) tools: Tools,
}

/// Opens and reads all that the pipeline needs, and creates nothing.
pub(super) async fn prepare(
    context: &Context,
    restore: &Restore,
    log: RunLog,
    actions: &Registry,
    intent: Intent,
) -> Result<Prepared, String> {
    let settings = &context.settings.storage;
    let gathered = gather::gather(context, restore).await.map_err(|error| error.chain())?;
    let backup = gathered.backup.as_ref().ok_or_else(|| format!("backup {} is gone", job_backup(restore)))?;
    let location = open(context, backup).await?;
    let files = BackupFiles::new(&backup.name_any()).map_err(|error| error.to_string())?;
    let reading = location
        .store
        .get_stream(&files.contents())
        .await
        .map_err(|error| format!("error downloading backup: {}", locations::words(&error)))?;
    let untrusted = location.object.annotations().get(UNTRUSTED).is_some_and(|value| value == "true");
    let limits = settings.spool_limits();
    let limits = if untrusted { limits.of_strangers() } else { limits };
    let spool =
        Spool::read(reading, &settings.spool_directory, limits).await.map_err(|error| chain(&error))?;
    let volumes = volume_data::read(location.store.as_ref(), &files, &spool).await?;
    let modifiers = validate::modifiers(restore, gathered.modifiers.as_ref())?;
    let discovered = discovery::discover(&context.client).await.map_err(|error| error.chain())?;
    let policies = validate::policies(restore, gathered.policies.as_ref())?;
    let mut valid =
        compile(&restore.spec, &discovered.catalogue, modifiers).map_err(|error| error.to_string())?;
    valid.filter = valid
        .filter
        .with_policies(&policies, &discovered.catalogue)
        .map_err(|error| format!("invalid restore {error}"))?;
    valid.versions = versions(context, &spool, &discovered.catalogue).await?;
    let journal = journal(context, restore);
    let begun = if status::is_first_attempt(restore) {
        Begun::default()
    } else {
        journal.read().await.map_err(|error| error.chain())?
    };
    let job = Job {
        restore: restore.clone(),
        valid,
        spool,
        volumes: by_volume(&data(&volumes)),
        untrusted: untrusted.then(|| location.name.clone()),
        begun,
        log,
    };
    let unreadable = job.spool.unreadable().iter();
    let unreadable = unreadable
        .map(|one| (one.id.namespace.clone(), format!("error decoding {}: {}", one.id, one.problem)))
        .collect();
    let mut tools = tools(context, restore, discovered.catalogue, actions, journal);
    if job.volumes.values().any(|data| *data == DataIn::NativeSnapshot) {
        let snapshots = volume_data::snapshots(location.store.as_ref(), &files).await;
        for words in doubled(snapshots.as_deref().unwrap_or_default()) {
            job.log.warning(&words, &[]);
        }
        let uid = restore.uid().unwrap_or_default();
        let owner = Owner { restore: (restore.name_any(), uid), backup: backup.name_any() };
        let limit = operation_timeout(context, restore);
        let maker: Arc<dyn NativeVolumes> = match intent {
            Intent::Restore => Arc::new(VolumeMaker::new(context, owner, snapshots, job.log.clone(), limit)),
            Intent::Preview => Arc::new(PreviewedVolumes(snapshots)),
        };
        tools.maker = Some(maker);
    }
    let copies = volume_data::copies(location.store.as_ref(), &files).await?;
    if job.valid.volumes && !copies.is_empty() {
        let filler = Filler::new(context, restore, &location.name, copies);
        tools.filler = Some(Arc::new(if intent == Intent::Preview { filler.previewed() } else { filler }));
    }
    Ok(Prepared { location, job, volumes, unreadable, tools })
}

/// Which further versions of types are taken: by upstream's rules where the feature is on, else only where the cluster does not
/// serve the version that the old one preferred.
async fn versions(
    context: &Context,
    spool: &Spool,
    catalogue: &Catalogue,
) -> Result<BTreeMap<GroupResource, String>, String> {
    let stored = spool.other_versions();
    if stored.is_empty() {
        return Ok(BTreeMap::new());
    }
    let everywhere = context.settings.backup.has_feature("EnableAPIGroupVersions");
    let wishes = if everywhere { gather::wishes(context).await? } else { Wishes::default() };
    let preferred: BTreeMap<&GroupResource, &str> =
        spool.items().map(|item| (item.resource(), item.version())).collect();
    let mut chosen = BTreeMap::new();
    for (resource, others) in stored {
        let Some(preferred) = preferred.get(resource) else { continue };
        if !everywhere && catalogue.version(resource, preferred).is_some() {
            continue;
        }
        let others: Vec<&str> = others.into_iter().collect();
        if let Some(version) = choose(resource, preferred, &others, catalogue, &wishes) {
            chosen.insert(resource.clone(), version);
        }
    }
    Ok(chosen)
}

async fn open(context: &Context, backup: &Backup) -> Result<Location, String> {
    let name = backup.spec.storage_location.clone().unwrap_or_default();
    locations::open(context, &name).await.map_err(|error| error.chain())
}

/// The log of a run, in a file.
pub(super) fn log(context: &Context, restore: &Restore) -> Result<RunLog, String> {
    let directory = &context.settings.storage.spool_directory;
    let name = format!("{}/{}", context.settings.namespace, restore.name_any());
    RunLog::create(directory, &[("restore", &name)], Level::Info)
        .map_err(|error| format!("cannot write a log in {}: {error}", directory.display()))
}

pub(super) fn journal(context: &Context, restore: &Restore) -> Journal {
    Journal::new(context.client.clone(), &context.settings.namespace, restore)
}

fn tools(
    context: &Context,
    restore: &Restore,
    catalogue: Catalogue,
    actions: &Registry,
    journal: Journal,
) -> Tools {
    let settings = &context.settings.restore;
    Tools {
        direct: context.direct.clone(),
        catalogue: Arc::new(catalogue),
        actions: actions.restore.clone(),
        maker: None,
        filler: None,
        journal: Arc::new(journal),
        commands: context.commands.clone(),
        priorities: settings.priorities.clone(),
        times: Times {
            ready: settings.ready_timeout,
            terminating: settings.terminating_timeout,
            resource: settings.resource_timeout,
            hooks: operation_timeout(context, restore),
            action: operation_timeout(context, restore),
        },
    }
}

/// An error and its causes, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
