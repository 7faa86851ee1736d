//! One run of a Restore: opens the location, reads the archive into the spool, drives the pipeline while it shows progress,
//! writes the files; then waits for operations, looks after new volumes, and writes the last phase. Whatever goes wrong
//! before the pipeline ends the Restore as Failed. A run that another server began goes on at the stage that its phase names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::{Api, Resource, ResourceExt};
use lifeboat_api::velero::{Backup, Restore, RestorePhase};
use lifeboat_archive::documents::{BackupVolumeInfo, ResourceList};
use lifeboat_archive::{BackupFiles, Level, RestoreFiles, RunLog, Spool};
use lifeboat_cluster::{discovery, objects};
use lifeboat_plan::catalogue::{Catalogue, GroupResource};
use lifeboat_plan::restore::native::doubled;
use lifeboat_plan::restore::trust::UNTRUSTED;
use lifeboat_plan::restore::validate::compile;
use lifeboat_plan::restore::versions::{Wishes, choose};
use lifeboat_plan::restore::volumes::{DataIn, Holder, by_volume, missing};
use lifeboat_plan::restore::waits::WAITING;
use lifeboat_plan::time;
use lifeboat_plugin::Registry;
use lifeboat_plugin::actions::Intent;
use lifeboat_web::Ending;
use serde_json::{Value, json};

use super::after::{CANCELLED, OVERTAKEN, Rest, created, operation_timeout};
use super::after::{csi, finalize, operations, volumes};
use super::handler::{
    self, Begun, Filler, Job, Journal, NativeVolumes, Owner, PreviewedVolumes, Times, Tools, VolumeMaker,
};
use super::status::Written;
use super::volume_data::{self, data, incomplete_claims};
use super::{Order, gather, status, validate};
use crate::context::Context;
use crate::items::progress::Progress;
use crate::locations::{self, Location};
use crate::plugins::{Acting, PluginLines};
use crate::volume_plugin::{self, Kind};

/// How often progress is shown.
const SHOWN: Duration = Duration::from_secs(1);

pub(super) async fn execute(context: &Context, resource: &ApiResource, order: Order) {
    let api = objects::namespaced(&context.client, &context.settings.namespace, resource);
    let (name, about) = (order.restore.name_any(), order.restore.object_ref(&()));
    let schedule = order.restore.spec.schedule_name.clone().unwrap_or_default();
    let ended = attempt(context, &api, &order).await;
    let (patch, ending, note) = match ended {
        Ok(ended) => (ended.patch, ended.ending, ended.note),
        Err(words) => {
            let status = json!({"phase": "Failed", "failureReason": words,
                "completionTimestamp": time::seconds(context.now())});
            (json!({"status": status}), Ending::Failed, words)
        }
    };
    let patch = status::without_waits(patch);
    loop {
        match status::write(&api, &order.restore, &patch).await {
            Ok(Written::Done) => break,
            // Whoever has it now tells how it ends.
            Ok(Written::NotOurs) => return,
            Err(error) => {
                let words = error.chain();
                tracing::warn!(restore = name, words, "cannot write the end of a restore");
                if error.is_invalid() {
                    break;
                }
            }
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    let (namespace, uid) = (&context.settings.namespace, order.restore.uid().unwrap_or_default());
    let words = if matches!(ending, Ending::Failed) { &note } else { "its restore has ended" };
    volume_plugin::end_open(&context.client, Kind::Restore, namespace, &uid, words).await;
    handler::end_open(context, &uid).await;
    journal(context, &order.restore).remove().await;
    context.metrics.velero().restore_ended(&schedule, ending);
    match ending {
        Ending::Completed => context.events.normal(&about, "Completed", &note).await,
        _ => context.events.warning(&about, "NotCompleted", &note).await,
    }
}

/// The end of a run.
pub(super) struct Over {
    pub(super) patch: Value,
    pub(super) ending: Ending,
    pub(super) note: String,
}

/// Plugins live as long as the run: its items, operations and end share their processes.
async fn attempt(context: &Context, api: &Api<DynamicObject>, order: &Order) -> Result<Over, String> {
    let later = matches!(
        order.restore.phase(),
        RestorePhase::WaitingForPluginOperations
            | RestorePhase::WaitingForPluginOperationsPartiallyFailed
            | RestorePhase::Finalizing
            | RestorePhase::FinalizingPartiallyFailed
    );
    // A run that goes on after its items has its log in storage.
    let log = if later { None } else { Some(log(context, &order.restore)?) };
    let acting = match &log {
        Some(log) => context.acting(Arc::new(PluginLines(log.clone()))),
        None => context.acting_quietly(),
    };
    let ended = Box::pin(stages(context, api, order, log, &acting)).await;
    acting.close().await;
    ended
}

async fn stages(
    context: &Context,
    api: &Api<DynamicObject>,
    order: &Order,
    log: Option<RunLog>,
    acting: &Acting,
) -> Result<Over, String> {
    let mut rest = match log {
        Some(log) => Box::pin(items(context, api, order, log, acting)).await?,
        None => match Rest::reopen(context, api, &order.restore, &order.cancel, acting).await {
            Ok(rest) => rest,
            Err(words) if order.cancel.is_cancelled() => return Err(words),
            Err(words) => return Ok(unfinished(context, &words)),
        },
    };
    let ended = async {
        operations::follow(&mut rest).await?;
        volumes::follow(&mut rest).await?;
        csi::await_volumes(&mut rest).await?;
        finalize::finalize(&mut rest).await
    };
    let ended = ended.await;
    if let Err(words) = &ended {
        rest.results.errors.velero.push(words.clone());
        rest.changed = true;
    }
    if let Err(words) = rest.keep().await {
        rest.results.errors.velero.push(words);
    }
    ended.map(|()| rest.over())
}

/// Everything was restored, and what came after it is not known.
fn unfinished(context: &Context, words: &str) -> Over {
    let words = format!("the objects were restored; what followed is not known: {words}");
    let status = json!({"phase": "PartiallyFailed", "failureReason": words,
        "completionTimestamp": time::seconds(context.now())});
    Over { patch: json!({"status": status}), ending: Ending::PartiallyFailed, note: words }
}

/// The first stage: everything that the backup holds, and hooks. Its files are written before its phase says so.
async fn items<'a>(
    context: &'a Context,
    api: &'a Api<DynamicObject>,
    order: &'a Order,
    log: RunLog,
    acting: &'a Acting,
) -> Result<Rest<'a>, String> {
    let restore = &order.restore;
    let failed = |words: String| format!("restore execution failed: {words}");
    let prepared = tokio::select! {
        prepared = prepare(context, restore, log, &acting.actions, Intent::Restore) => prepared.map_err(failed)?,
        () = order.cancel.cancelled() => return Err(CANCELLED.to_owned()),
    };
    let Prepared { location, job, volumes, unreadable, tools } = prepared;
    let (log, wants_data, mapping) = (job.log.clone(), job.valid.volumes, job.valid.mapping.clone());
    log.info(
        &format!("Starting restore of backup {}/{}", context.settings.namespace, job_backup(restore)),
        &[],
    );
    let progress = Progress::going_on(restore.annotations().get(WAITING).map(String::as_str));
    let (progress, name) = (Arc::new(progress), restore.name_any());
    let ended = tokio::select! {
        ended = handler::restore(job, &tools, &progress, &order.cancel) => ended,
        () = show(api, restore, &progress) => return Err(OVERTAKEN.to_owned()),
    };
    let (total, restored) = progress.now();
    let mut of_items = json!({"progress": {"totalItems": total.max(restored), "itemsRestored": restored},
        "hookStatus": {}});
    if ended.hooks.attempted > 0 {
        of_items["hookStatus"] =
            json!({"hooksAttempted": ended.hooks.attempted, "hooksFailed": ended.hooks.failed});
    }
    let filled = ended.volumes.filled;
    let mut made = ended.volumes.infos;
    made.extend(csi::infos(&volumes, &filled, &mapping));
    let mut rest = Rest {
        context,
        acting,
        api,
        restore,
        cancel: &order.cancel,
        store: location.store,
        files: RestoreFiles::new(&name).map_err(|error| error.to_string())?,
        log: Some(log.clone()),
        list: ended.list,
        results: ended.results,
        operations: ended.operations,
        volumes,
        made,
        open: ended.volumes.open,
        partial: false,
        of_items,
        changed: true,
    };
    if tools.maker.is_some() {
        volumes::gone_on_with(&mut rest).await;
    }
    for (namespace, words) in unreadable {
        rest.error(namespace.as_deref(), words);
    }
    if wants_data {
        for (namespace, claim, words) in incomplete_claims(&rest.volumes) {
            let target = mapping.get(&namespace).cloned().unwrap_or(namespace);
            if filled.contains(&(target.clone(), claim)) {
                rest.warn(Some(&target), words);
            }
        }
        let mut held = data(&rest.volumes);
        held.retain(|one| {
            one.pod.as_ref().is_none_or(|pod| one.data != DataIn::PodVolume || !ended.reported.contains(pod))
        });
        for (namespace, words) in missing(&held, holders(&rest.list, &mapping, &filled)) {
            let namespace = namespace.map(|name| mapping.get(&name).cloned().unwrap_or(name));
            rest.error(namespace.as_deref(), words);
        }
    }
    if order.cancel.is_cancelled() {
        log.error(CANCELLED, &[]);
        rest.results.errors.velero.push(CANCELLED.to_owned());
        operations::cancel_all(&mut rest).await;
        let _ = rest.write_all().await;
        return Err(CANCELLED.to_owned());
    }
    acting.tell_usage(&log);
    log.info("restore completed", &[]);
    if let Err(words) = rest.write_all().await {
        rest.results.errors.velero.push(words);
    }
    rest.show().await;
    Ok(rest)
}

/// Whether a restore took an object on: it created a claim or a pod, or met a volume.
fn holders(
    list: &ResourceList,
    mapping: &BTreeMap<String, String>,
    filled: &BTreeSet<(String, String)>,
) -> impl Fn(Holder<'_>) -> bool {
    let all = |kind: &str| created(list, kind).map(str::to_owned).collect::<BTreeSet<_>>();
    let (claims, pods) = (all("v1/PersistentVolumeClaim"), all("v1/Pod"));
    let volumes = list.types().filter(|(kind, _)| *kind == "v1/PersistentVolume");
    let volumes: BTreeSet<String> = volumes
        .flat_map(|(_, items)| items)
        .filter_map(|item| Some(item.rsplit_once('(')?.0.to_owned()))
        .collect();
    let (mapping, filled) = (mapping.clone(), filled.clone());
    let filled: BTreeSet<String> =
        filled.into_iter().map(|(namespace, name)| format!("{namespace}/{name}")).collect();
    let path = move |namespace: &str, name: &str| {
        format!("{}/{name}", mapping.get(namespace).map_or(namespace, String::as_str))
    };
    move |holder| match holder {
        Holder::Claim(namespace, name) => claims.contains(&path(namespace, name)),
        Holder::Pod(namespace, name) => pods.contains(&path(namespace, name)),
        Holder::Volume(name) => volumes.contains(name),
        Holder::Filled(namespace, name) => filled.contains(&path(namespace, name)),
    }
}

fn job_backup(restore: &Restore) -> &str {
    restore.spec.backup_name.as_deref().unwrap_or_default()
}

/// Items that cannot be read, with their namespaces.
type Unreadable = Vec<(Option<String>, String)>;

/// What a run begins with.
pub(super) struct Prepared {
    location: Location,
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

/// Writes progress, and what is waited for, once in a second; ends when another server goes on with the restore.
async fn show(api: &Api<DynamicObject>, restore: &Restore, progress: &Progress) {
    let mut shown = ((0, 0), restore.annotations().get(WAITING).cloned());
    loop {
        tokio::time::sleep(SHOWN).await;
        let now = (progress.now(), progress.waits().annotation());
        if now != shown {
            let ((total, restored), waits) = &now;
            let patch = json!({"metadata": {"annotations": {WAITING: waits}},
                "status": {"progress": {"totalItems": total.max(restored), "itemsRestored": restored}}});
            shown = now;
            match status::write(api, restore, &patch).await {
                Ok(Written::Done) => {}
                Ok(Written::NotOurs) => return,
                Err(error) => {
                    let error = error.chain();
                    tracing::debug!(restore = restore.name_any(), error, "cannot show progress");
                }
            }
        }
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
