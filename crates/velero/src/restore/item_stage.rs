//! The first stage of a run: drives the items through the pipeline while it shows progress, reports data that was not
//! restored, and writes the files of the restore.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube::api::DynamicObject;
use kube::{Api, ResourceExt};
use lifeboat_api::velero::Restore;
use lifeboat_archive::documents::ResourceList;
use lifeboat_archive::{RestoreFiles, RunLog};
use lifeboat_plan::items::waits::WAITING;
use lifeboat_plan::velero::restore::volumes::{Holder, missing};
use lifeboat_plugin::actions::Intent;
use lifeboat_store::Outage;
use serde_json::{Value, json};

use super::after::{FinishingRestore, created, csi, operations, volumes};
use super::error::RestoreError;
use super::handler::report::HookCounts;
use super::handler::{self, VolumeKey};
use super::prepare::{Prepared, job_backup, prepare};
use super::status::Written;
use super::volume_data::{incomplete_claims, unreported};
use super::{Order, status};
use crate::context::Context;
use crate::plugins::Acting;
use crate::storage_away::StorageAway;
use lifeboat_items::progress::Progress;

/// How often progress is written.
const SHOWN: Duration = Duration::from_secs(1);

/// How long the files of a cancelled restore may take.
const LAST_FILES: Duration = Duration::from_mins(1);

/// Runs the first stage: all items of the backup, and hooks. Its files are written before the next phase.
pub(super) async fn items<'a>(
    context: &'a Context,
    api: &'a Api<DynamicObject>,
    order: &'a Order,
    log: RunLog,
    acting: &'a Acting,
) -> Result<FinishingRestore<'a>, RestoreError> {
    let restore = &order.restore;
    let (outage, storage) = (Outage::default(), format!("the storage of backup {}", job_backup(restore)));
    let away = StorageAway::new("the restore", storage, &outage, &context.clock);
    let (progress, name) = (Arc::new(continued(restore)), restore.name_any());
    let preparing = Box::pin(prepare(context, restore, log, &acting.actions, Intent::Restore, &outage));
    let prepared = tokio::select! {
        prepared = preparing => prepared,
        () = order.cancel.cancelled() => return Err(RestoreError::Cancelled),
        () = show(api, restore, &progress, &away) => return Err(RestoreError::Overtaken),
    };
    let prepared = prepared.map_err(|error| RestoreError::Preparation(Box::new(error)))?;
    let Prepared { location, job, volumes, unreadable, tools } = prepared;
    let (log, wants_data, mapping) = (job.log.clone(), job.valid.volumes, job.valid.rules.mapping.clone());
    log.info(&format!("Starting restore of backup {}/{}", context.namespace, job_backup(restore)), &[]);
    let ended = tokio::select! {
        ended = handler::restore(job, &tools, &progress, &order.cancel) => ended,
        () = show(api, restore, &progress, &away) => return Err(RestoreError::Overtaken),
    };
    let mut made = ended.volumes.infos;
    made.extend(csi::infos(&volumes, &ended.volumes.filled, &mapping));
    let mut rest = FinishingRestore {
        context,
        acting,
        api,
        restore,
        cancel: &order.cancel,
        store: location.store,
        files: RestoreFiles::new(&name)?,
        log: Some(log.clone()),
        list: ended.list,
        results: ended.results,
        operations: ended.operations,
        volumes,
        made,
        open: ended.volumes.open,
        partial: false,
        of_items: items_status(&progress, ended.hooks),
        changed: true,
    };
    if tools.maker.is_some() {
        volumes::add_continued(&mut rest).await;
    }
    report_unreadable(&mut rest, unreadable);
    if wants_data {
        report_missing_data(&mut rest, &mapping, &ended.volumes.filled, &ended.reported);
    }
    tokio::select! {
        ended = Box::pin(end(rest)) => ended,
        () = show(api, restore, &progress, &away) => Err(RestoreError::Overtaken),
    }
}

/// Progress that continues the waits of an earlier server, as the Restore shows them.
fn continued(restore: &Restore) -> Progress {
    let started = restore.status.as_ref().and_then(|status| Some(status.start_timestamp.as_ref()?.0));
    Progress::going_on(restore.annotations().get(WAITING).map(String::as_str), started)
}

/// Adds errors about items that cannot be read.
fn report_unreadable(rest: &mut FinishingRestore<'_>, unreadable: Vec<(Option<String>, String)>) {
    for (namespace, message) in unreadable {
        rest.error(namespace.as_deref(), message);
    }
}

/// The status fields of a Restore's items.
fn items_status(progress: &Progress, hooks: HookCounts) -> Value {
    let (total, restored) = progress.now();
    let mut status = json!({"progress": {"totalItems": total.max(restored), "itemsRestored": restored},
        "hookStatus": {}});
    if hooks.attempted > 0 {
        status["hookStatus"] = json!({"hooksAttempted": hooks.attempted, "hooksFailed": hooks.failed});
    }
    status
}

/// Adds warnings about claims that were restored from incomplete copies, and errors about data that was not
/// restored; a warning if the backup had not requested the data.
fn report_missing_data(
    rest: &mut FinishingRestore<'_>,
    mapping: &BTreeMap<String, String>,
    filled: &BTreeSet<(String, String)>,
    reported: &BTreeSet<VolumeKey>,
) {
    for (namespace, claim, message) in incomplete_claims(&rest.volumes) {
        let target = mapping.get(&namespace).cloned().unwrap_or(namespace);
        if filled.contains(&(target.clone(), claim)) {
            rest.warn(Some(&target), message);
        }
    }
    let held = unreported(&rest.volumes, reported);
    for one in missing(&held, holders(&rest.list, mapping, filled)) {
        let namespace = one.namespace.map(|name| mapping.get(&name).cloned().unwrap_or(name));
        if one.is_error {
            rest.error(namespace.as_deref(), one.message);
        } else {
            rest.warn(namespace.as_deref(), one.message);
        }
    }
}

/// Writes the files of the stage, and its phase.
async fn end(mut rest: FinishingRestore<'_>) -> Result<FinishingRestore<'_>, RestoreError> {
    let log = rest.log.clone();
    if rest.cancel.is_cancelled() {
        let message = RestoreError::Cancelled.to_string();
        if let Some(log) = &log {
            log.error(&message, &[]);
        }
        rest.results.errors.velero.push(message);
        operations::cancel_all(&mut rest).await;
        // Storage may be away for long.
        let _ = tokio::time::timeout(LAST_FILES, rest.write_all()).await;
        return Err(RestoreError::Cancelled);
    }
    if let Some(log) = &log {
        rest.acting.log_usage(log);
        log.info("restore completed", &[]);
    }
    let cancel = rest.cancel.clone();
    let written = tokio::select! {
        written = rest.write_all() => written,
        // The next stage ends the restore.
        () = cancel.cancelled() => Err(RestoreError::Cancelled),
    };
    if let Err(error) = written {
        rest.results.errors.velero.push(error.to_string());
    }
    rest.show().await;
    Ok(rest)
}

/// Whether a restore handled the object that holds data: it created a claim or a pod, or processed a volume.
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

/// Writes progress, and what items wait for, once per second; ends when another server has taken the restore over.
async fn show(api: &Api<DynamicObject>, restore: &Restore, progress: &Progress, away: &StorageAway) {
    let mut shown = ((0, 0), restore.annotations().get(WAITING).cloned());
    loop {
        tokio::time::sleep(SHOWN).await;
        let now = (progress.now(), progress.waits().and(away.now()).annotation());
        if now != shown {
            let ((total, restored), waits) = &now;
            let mut patch = json!({"metadata": {"annotations": {WAITING: waits}}});
            if now.0 != shown.0 {
                patch["status"]["progress"] =
                    json!({"totalItems": total.max(restored), "itemsRestored": restored});
            }
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
