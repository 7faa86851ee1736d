//! The first stage of a run: drives the items through the pipeline while it shows progress, reports data that did not come back,
//! and writes the files of the restore.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube::api::DynamicObject;
use kube::{Api, ResourceExt};
use lifeboat_api::velero::Restore;
use lifeboat_archive::documents::ResourceList;
use lifeboat_archive::{RestoreFiles, RunLog};
use lifeboat_plan::restore::volumes::{DataIn, Holder, missing};
use lifeboat_plan::restore::waits::WAITING;
use lifeboat_plugin::actions::Intent;
use serde_json::json;

use super::after::{CANCELLED, OVERTAKEN, Rest, created, csi, operations, volumes};
use super::prepare::{Prepared, job_backup, prepare};
use super::status::Written;
use super::volume_data::{data, incomplete_claims};
use super::{Order, handler, status};
use crate::context::Context;
use crate::items::progress::Progress;
use crate::plugins::Acting;

/// How often progress is shown.
const SHOWN: Duration = Duration::from_secs(1);

/// The first stage: everything that the backup holds, and hooks. Its files are written before its phase says so.
pub(super) async fn items<'a>(
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
