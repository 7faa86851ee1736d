//! Opens and reads everything that the items of a Restore need: its backup and location, the archive in a spool, the
//! backup's volume info, the compiled spec, and the tools of the pipeline. Called for a run and for a dry run;
//! creates nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::ResourceExt;
use lifeboat_api::common::LocationName;
use lifeboat_api::velero::{Backup, Restore};
use lifeboat_archive::documents::BackupVolumeInfo;
use lifeboat_archive::{BackupFiles, Level, RunLog, Spool};
use lifeboat_cluster::discovery;
use lifeboat_plan::catalogue::{Catalogue, GroupResource};
use lifeboat_plan::items::trust::UNTRUSTED;
use lifeboat_plan::items::versions::{VersionPreferences, choose};
use lifeboat_plan::velero::restore::native::doubled;
use lifeboat_plan::velero::restore::validate::{ValidRestore, compile, left_out};
use lifeboat_plan::velero::restore::volumes::{DataIn, by_volume};
use lifeboat_plugin::Registry;
use lifeboat_plugin::actions::Intent;
use lifeboat_store::Outage;
use tokio::time::{Instant, sleep};

use super::after::{NEXT_TRY, operation_timeout};
use super::error::RestoreError;
use super::gather::Gathered;
use super::handler::{
    Begun, Filler, Job, Journal, NativeError, NativeVolumes, Owner, PreviewedVolumes, Times, Tools,
    VolumeMaker,
};
use super::volume_data::{self, data};
use super::{gather, status, validate};
use crate::context::Context;
use crate::locations::{self, Location, LocationError};
use crate::own;

/// The name of the backup that is restored.
pub(super) fn job_backup(restore: &Restore) -> &str {
    restore.spec.backup_name.as_deref().unwrap_or_default()
}

/// The memory of what is kept about one volume during a restore.
const VOLUME: usize = 4096;

/// Items that cannot be read, with their namespaces.
type Unreadable = Vec<(Option<String>, String)>;

/// What a run starts with.
pub(super) struct Prepared {
    pub(super) location: Location,
    pub(super) job: Job,
    /// The backup's volume info.
    pub(super) volumes: Vec<BackupVolumeInfo>,
    pub(super) unreadable: Unreadable,
    pub(super) tools: Tools,
}

/// Opens and reads everything that the pipeline needs; creates nothing. A restore waits while storage is away, as `outage`
/// shows; a dry run does not.
pub(super) async fn prepare(
    context: &Context,
    restore: &Restore,
    log: RunLog,
    actions: &Registry,
    intent: Intent,
    outage: &Outage,
) -> Result<Prepared, RestoreError> {
    let gathered = gather::gather(context, restore).await?;
    let gone = || RestoreError::BackupGone(job_backup(restore).to_owned());
    let backup = gathered.backup.as_ref().ok_or_else(gone)?;
    let location = match intent {
        Intent::Preview => locations::open(context, location_of(backup)).await?,
        Intent::Restore => open(context, restore, backup, outage).await?,
    };
    let files = BackupFiles::new(&backup.name_any())?;
    let untrusted = location.object.annotations().get(UNTRUSTED).is_some_and(|value| value == "true");
    let mut spool = read_archive(context, &location, &files, untrusted).await?;
    let volumes = volume_data::read(location.store.as_ref(), &files, &spool).await?;
    spool.hold(volumes.len() * VOLUME)?;
    let catalogue = discovery::discover(&context.client).await?.catalogue;
    let valid = compiled(context, restore, &gathered, &spool, &catalogue).await?;
    let journal = journal(context, restore);
    let begun = if status::is_first_attempt(restore) { Begun::default() } else { journal.read().await? };
    let mut job = Job {
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
    let mut tools = tools(context, restore, catalogue, actions, journal);
    if job.volumes.values().any(|data| *data == DataIn::NativeSnapshot) {
        tools.maker = Some(maker(context, &job, &location, &files, intent).await);
    }
    let copies = volume_data::copies(location.store.as_ref(), &files).await?;
    job.spool.hold(copies.len() * VOLUME)?;
    if job.valid.volumes && !copies.is_empty() {
        let filler = Filler::new(context, restore, LocationName::new(&location.name), copies);
        tools.filler = Some(Arc::new(if intent == Intent::Preview { filler.previewed() } else { filler }));
    }
    Ok(Prepared { location, job, volumes, unreadable, tools })
}

/// Downloads the archive of the backup into a local file.
async fn read_archive(
    context: &Context,
    location: &Location,
    files: &BackupFiles,
    untrusted: bool,
) -> Result<Spool, RestoreError> {
    let settings = &context.settings.storage;
    let reading = location.store.get_stream(&files.contents()).await;
    let reading = reading.map_err(|error| RestoreError::Download(locations::message(&error)))?;
    let limits = settings.spool_limits();
    let limits = if untrusted { limits.untrusted() } else { limits };
    Ok(Spool::read(reading, &settings.spool_directory, limits).await?)
}

/// The spec of the Restore, compiled for the types that the cluster serves.
async fn compiled(
    context: &Context,
    restore: &Restore,
    gathered: &Gathered,
    spool: &Spool,
    catalogue: &Catalogue,
) -> Result<ValidRestore, RestoreError> {
    let modifiers = validate::modifiers(restore, gathered.modifiers.as_ref())?;
    let policies = validate::policies(restore, gathered.policies.as_ref())?;
    let mut valid = compile(&restore.spec, catalogue, modifiers)?;
    valid.rules.filter =
        valid.rules.filter.with_policies(&policies, catalogue).map_err(RestoreError::PolicyFilter)?;
    let own = own::objects(context).await?;
    valid.rules.own = left_out(&restore.spec, own, catalogue);
    valid.rules.versions = versions(context, spool, catalogue).await?;
    Ok(valid)
}

/// Creates volumes from the backup's plugin snapshots. If their list cannot be read, the volumes fail, not the
/// restore.
async fn maker(
    context: &Context,
    job: &Job,
    location: &Location,
    files: &BackupFiles,
    intent: Intent,
) -> Arc<dyn NativeVolumes> {
    let snapshots = volume_data::snapshots(location.store.as_ref(), files).await;
    let snapshots = snapshots.map_err(|error| NativeError::Refused(error.to_string()));
    for warning in doubled(snapshots.as_deref().unwrap_or_default()) {
        job.log.warning(&warning, &[]);
    }
    if intent == Intent::Preview {
        return Arc::new(PreviewedVolumes(snapshots));
    }
    let uid = job.restore.uid().unwrap_or_default();
    let owner = Owner { restore: (job.restore.name_any(), uid), backup: files.name().to_owned() };
    let limit = operation_timeout(context, &job.restore);
    Arc::new(VolumeMaker::new(context, owner, snapshots, job.log.clone(), limit))
}

/// Which further API versions of types are restored: by upstream's rules if the feature is on; otherwise only if the
/// cluster does not serve the version that the old cluster preferred.
async fn versions(
    context: &Context,
    spool: &Spool,
    catalogue: &Catalogue,
) -> Result<BTreeMap<GroupResource, String>, RestoreError> {
    if spool.other_versions().is_empty() {
        return Ok(BTreeMap::new());
    }
    let everywhere = context.settings.backup.has_feature("EnableAPIGroupVersions");
    let preferences = if everywhere { Some(gather::preferred_versions(context).await?) } else { None };
    Ok(chosen_versions(spool, catalogue, preferences.as_ref()))
}

/// The further version that is restored of each type. `preferences`: None if the feature is off.
pub(super) fn chosen_versions(
    spool: &Spool,
    catalogue: &Catalogue,
    preferences: Option<&VersionPreferences>,
) -> BTreeMap<GroupResource, String> {
    let none = VersionPreferences::default();
    let preferred: BTreeMap<&GroupResource, &str> =
        spool.items().map(|item| (item.resource(), item.version())).collect();
    let mut chosen = BTreeMap::new();
    for (resource, others) in spool.other_versions() {
        let Some(preferred) = preferred.get(resource) else { continue };
        if preferences.is_none() && catalogue.version(resource, preferred).is_some() {
            continue;
        }
        let others: Vec<&str> = others.into_iter().collect();
        if let Some(version) = choose(resource, preferred, &others, catalogue, preferences.unwrap_or(&none)) {
            chosen.insert(resource.clone(), version);
        }
    }
    chosen
}

fn location_of(backup: &Backup) -> &str {
    backup.spec.storage_location.as_deref().unwrap_or_default()
}

/// Opens the location of the backup. A restore that an earlier server began waits for a location that was Available then.
async fn open(
    context: &Context,
    restore: &Restore,
    backup: &Backup,
    outage: &Outage,
) -> Result<Location, RestoreError> {
    let until = Instant::now() + context.settings.storage.outage_timeout;
    loop {
        match locations::open_patient(context, location_of(backup), outage).await {
            Err(error @ LocationError::Unavailable { .. })
                if !status::is_first_attempt(restore) && Instant::now() < until =>
            {
                tracing::warn!(restore = restore.name_any(), error = error.chain(), "waiting for storage");
                sleep(NEXT_TRY).await;
            }
            opened => return Ok(opened?),
        }
    }
}

/// The log of a run, in a local file.
pub(super) fn log(context: &Context, restore: &Restore) -> Result<RunLog, RestoreError> {
    let directory = &context.settings.storage.spool_directory;
    let name = format!("{}/{}", context.namespace, restore.name_any());
    RunLog::create(directory, &[("restore", &name)], Level::Info)
        .map_err(|source| RestoreError::Log { directory: directory.clone(), source })
}

pub(super) fn journal(context: &Context, restore: &Restore) -> Journal {
    Journal::new(context.client.clone(), &context.namespace, restore)
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
        clock: context.clock.clone(),
    }
}
