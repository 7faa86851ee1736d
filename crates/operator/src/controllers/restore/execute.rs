//! One run of a Restore: opens the location, reads the archive into the spool, drives the pipeline while it shows progress,
//! writes the files, then the last phase. Whatever goes wrong before the pipeline ends the Restore as Failed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::{Api, Resource, ResourceExt};
use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::{Backup, Restore};
use lifeboat_archive::documents::{self, BackupVolumeInfo, DOCUMENT_LIMIT, RestoreVolumeInfo};
use lifeboat_archive::{BackupFiles, Level, ObjectStore, RestoreFiles, RunLog, Spool};
use lifeboat_cluster::{discovery, objects};
use lifeboat_plan::catalogue::Catalogue;
use lifeboat_plan::restore::outcome::{end_phase, phase_after_items};
use lifeboat_plan::restore::trust::UNTRUSTED;
use lifeboat_plan::restore::validate::compile;
use lifeboat_plan::restore::volumes::DataIn;
use lifeboat_plan::time;
use lifeboat_web::Ending;
use serde_json::{Value, json};

use super::{Order, gather, status, validate};
use crate::context::Context;
use crate::locations::{self, Location};
use crate::restore::{self, Ended, Job, Progress, Times, Tools};

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
    while let Err(error) = status::write(&api, &name, &patch).await {
        if error.is_not_found() || error.is_invalid() {
            break;
        }
        tracing::warn!(
            restore = name,
            error = &error as &dyn std::error::Error,
            "cannot write the end of a restore"
        );
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    context.metrics.velero().restore_ended(&schedule, ending);
    match ending {
        Ending::Completed => context.events.normal(&about, "Completed", &note).await,
        _ => context.events.warning(&about, "NotCompleted", &note).await,
    }
}

/// The end of a run.
struct Over {
    patch: Value,
    ending: Ending,
    note: String,
}

async fn attempt(context: &Context, api: &Api<DynamicObject>, order: &Order) -> Result<Over, String> {
    let restore = &order.restore;
    let failed = |words: String| format!("restore execution failed: {words}");
    let Prepared { location, job, missing, tools } = prepare(context, restore).await.map_err(failed)?;
    let log = job.log.clone();
    log.info(
        &format!("Starting restore of backup {}/{}", context.settings.namespace, job_backup(restore)),
        &[],
    );
    let (progress, name) = (Arc::new(Progress::default()), restore.name_any());
    let mut ended = tokio::select! {
        ended = restore::restore(job, &tools, &progress, &order.cancel) => ended,
        () = show(api, &name, &progress) => return Err(failed("it ended unexpectedly".into())),
    };
    for (namespace, words) in missing {
        log.error(&words, &[]);
        ended.results.errors.add(namespace.as_deref(), words);
    }
    let (total, restored) = progress.now();
    if order.cancel.is_cancelled() {
        let words = "the restore was cancelled; what it had created stays (label velero.io/restore-name)";
        log.error(words, &[]);
        ended.results.errors.velero.push(words.to_owned());
        let _ = write_files(location.store.as_ref(), restore, &ended, &log).await;
        return Err(words.to_owned());
    }
    let errors = ended.results.errors.count();
    let status = json!({"phase": phase_after_items(errors, false)});
    let _ = status::write(api, &restore.name_any(), &json!({"status": status})).await;
    log.info("restore completed", &[]);
    if let Err(words) = write_files(location.store.as_ref(), restore, &ended, &log).await {
        ended.results.errors.velero.push(words);
    }
    Ok(over(context, &ended, total.max(restored), restored))
}

fn job_backup(restore: &Restore) -> &str {
    restore.spec.backup_name.as_deref().unwrap_or_default()
}

/// The last words of a run that came to its end.
fn over(context: &Context, ended: &Ended, total: usize, restored: usize) -> Over {
    let (errors, warnings) = (ended.results.errors.count(), ended.results.warnings.count());
    let phase = end_phase(errors);
    let operations = ended.operations.len();
    let mut status = json!({
        "phase": phase,
        "completionTimestamp": time::seconds(context.now()),
        "progress": {"totalItems": total, "itemsRestored": restored},
        "hookStatus": {},
    });
    let counts = [("errors", errors), ("warnings", warnings), ("restoreItemOperationsAttempted", operations)];
    for (field, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        status[field] = json!(count);
    }
    if ended.hooks.attempted > 0 {
        status["hookStatus"] =
            json!({"hooksAttempted": ended.hooks.attempted, "hooksFailed": ended.hooks.failed});
    }
    let note = format!("{restored} items, {warnings} warnings, {errors} errors");
    let ending = if errors > 0 { Ending::PartiallyFailed } else { Ending::Completed };
    Over { patch: json!({"status": status}), ending, note }
}

/// Data that the backup holds for volumes that are no PersistentVolumes, and that is not restored.
type Missing = Vec<(Option<String>, String)>;

/// What a run begins with.
pub(super) struct Prepared {
    location: Location,
    pub(super) job: Job,
    missing: Missing,
    pub(super) tools: Tools,
}

/// Opens and reads all that the pipeline needs. Nothing was created when this fails.
pub(super) async fn prepare(context: &Context, restore: &Restore) -> Result<Prepared, String> {
    let settings = &context.settings.storage;
    let gathered = gather::gather(context, restore).await.map_err(|error| error.chain())?;
    let backup = gathered.backup.as_ref().ok_or_else(|| format!("backup {} is gone", job_backup(restore)))?;
    let location = open(context, backup).await?;
    let files = BackupFiles::new(&backup.name_any()).map_err(|error| error.to_string())?;
    let name = format!("{}/{}", context.settings.namespace, restore.name_any());
    let log = RunLog::create(&settings.spool_directory, &[("restore", &name)], Level::Info)
        .map_err(|error| format!("cannot write a log in {}: {error}", settings.spool_directory.display()))?;
    let reading = location
        .store
        .get_stream(&files.contents())
        .await
        .map_err(|error| format!("error downloading backup: {}", locations::words(&error)))?;
    let spool = Spool::read(reading, &settings.spool_directory, settings.spool_limits())
        .await
        .map_err(|error| chain(&error))?;
    let volumes = volume_infos(location.store.as_ref(), &files).await?;
    let modifiers = validate::modifiers(restore, gathered.modifiers.as_ref())?;
    let discovered = discovery::discover(&context.client).await.map_err(|error| error.chain())?;
    let valid =
        compile(&restore.spec, &discovered.catalogue, modifiers).map_err(|error| error.to_string())?;
    let untrusted = location.object.annotations().get(UNTRUSTED).is_some_and(|value| value == "true");
    let missing = if valid.volumes { missing(&volumes) } else { Missing::new() };
    let job = Job {
        restore: restore.clone(),
        valid,
        spool,
        volumes: volumes.iter().map(|info| (info.pv_name.clone(), data_in(info))).collect(),
        untrusted: untrusted.then(|| location.name.clone()),
        log,
    };
    for one in job.spool.unreadable() {
        job.log.error(&format!("error decoding {}: {}", one.id, one.problem), &[]);
    }
    let unreadable = job.spool.unreadable().iter();
    let unreadable = unreadable
        .map(|one| (one.id.namespace.clone(), format!("error decoding {}: {}", one.id, one.problem)));
    let missing = missing.into_iter().chain(unreadable).collect();
    Ok(Prepared { location, job, missing, tools: tools(context, restore, discovered.catalogue) })
}

async fn open(context: &Context, backup: &Backup) -> Result<Location, String> {
    let name = backup.spec.storage_location.clone().unwrap_or_default();
    locations::open(context, &name).await.map_err(|error| error.to_string())
}

fn tools(context: &Context, restore: &Restore, catalogue: Catalogue) -> Tools {
    let settings = &context.settings.restore;
    let operation = GoDuration::set(restore.spec.item_operation_timeout).and_then(GoDuration::to_std);
    Tools {
        direct: context.direct.clone(),
        catalogue: Arc::new(catalogue),
        actions: context.actions.restore.clone(),
        commands: context.commands.clone(),
        priorities: settings.priorities.clone(),
        times: Times {
            ready: settings.ready_timeout,
            terminating: settings.terminating_timeout,
            resource: settings.resource_timeout,
            hooks: operation.unwrap_or(settings.operation_timeout),
        },
    }
}

/// Writes progress once in a second; never ends.
async fn show(api: &Api<DynamicObject>, name: &str, progress: &Progress) {
    let mut shown = (0, 0);
    loop {
        tokio::time::sleep(SHOWN).await;
        let now = progress.now();
        if now != shown {
            shown = now;
            let patch =
                json!({"status": {"progress": {"totalItems": now.0.max(now.1), "itemsRestored": now.1}}});
            if let Err(error) = status::write(api, name, &patch).await.map_err(|error| error.chain()) {
                tracing::debug!(restore = name, error, "cannot show progress");
            }
        }
    }
}

/// What the backup says of each volume; old backups say nothing.
async fn volume_infos(store: &dyn ObjectStore, files: &BackupFiles) -> Result<Vec<BackupVolumeInfo>, String> {
    match store.get(&files.volume_info(), DOCUMENT_LIMIT).await {
        Ok(stored) => documents::decode_list(&stored)
            .map_err(|error| format!("cannot read {}: {error}", files.volume_info())),
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        Err(error) => Err(format!("cannot read {}: {}", files.volume_info(), locations::words(&error))),
    }
}

fn data_in(info: &BackupVolumeInfo) -> DataIn {
    match info.backup_method.as_str() {
        _ if info.skipped => DataIn::Nothing,
        "NativeSnapshot" => DataIn::NativeSnapshot,
        "PodVolumeBackup" => DataIn::PodVolume,
        "CSISnapshot" if info.snapshot_data_moved => DataIn::MovedSnapshot,
        "CSISnapshot" => DataIn::CsiSnapshot,
        _ => DataIn::Nothing,
    }
}

/// Volumes of pods that have no PersistentVolume.
fn missing(volumes: &[BackupVolumeInfo]) -> Missing {
    let of_pods = volumes.iter().filter(|info| info.pv_name.is_empty() && data_in(info) != DataIn::Nothing);
    of_pods
        .filter_map(|info| info.pvb_info.as_ref())
        .map(|pod| {
            let words = format!(
                "the data of volume {} of pod {}/{} was not restored: the backup holds it as a copy of its files in a repository, which this version of Lifeboat does not restore",
                pod.volume_name, pod.pod_namespace, pod.pod_name
            );
            (Some(pod.pod_namespace.clone()), words)
        })
        .collect()
}

/// Log, results, resource list, operations, volume info. The first error is given; all files are tried.
async fn write_files(
    store: &dyn ObjectStore,
    restore: &Restore,
    ended: &Ended,
    log: &RunLog,
) -> Result<(), String> {
    let files = RestoreFiles::new(&restore.name_any()).map_err(|error| error.to_string())?;
    let volumes: Vec<RestoreVolumeInfo> = Vec::new();
    let encoded = BTreeMap::from([
        (files.results(), documents::encode(&ended.results)),
        (files.resource_list(), documents::encode(&ended.list)),
        (files.item_operations(), documents::encode(&ended.operations)),
        (files.volume_info(), documents::encode(&volumes)),
    ]);
    let mut problem = None;
    for (key, body) in encoded {
        let written = match body {
            Ok(body) => store.put(&key, body).await.map_err(|error| locations::words(&error)),
            Err(error) => Err(error.to_string()),
        };
        if let Err(words) = written {
            problem.get_or_insert(format!("cannot write {key}: {words}"));
        }
    }
    if let Err(error) = log.upload(store, &files.log()).await {
        problem.get_or_insert(format!(
            "error uploading log file to backup storage: {}",
            locations::words(&error)
        ));
    }
    problem.map_or(Ok(()), Err)
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
