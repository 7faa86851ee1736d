//! The page of `lifeboat backup describe`, made from the Backup and the records read for it. Settings with their usual
//! values are shown only with --details. The template of a schedule is shown in the same way.

#[cfg(test)]
mod tests;
mod volume;

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::ResourceExt;
use lifeboat_api::common::{GoDuration, Time};
use lifeboat_api::velero::{
    Backup, BackupHooks, BackupPhase, BackupResourceHook, BackupSpec, DeleteBackupRequest, HookStatus,
};
use lifeboat_plan::items::waits::{WAITING, Waits};
use serde_json::{Value, json};

use crate::commands::describe::Records;
use crate::objects::get::selector_text;
use crate::objects::results::{self, NotFetched};
use crate::objects::show::{Node, Page, instant, moment, relative, span};
use crate::objects::volumes as objects_volumes;
pub(crate) use volume::Volume;

/// Everything that the page is made from.
pub(crate) struct Facts {
    pub(crate) backup: Backup,
    pub(crate) deletions: Vec<DeleteBackupRequest>,
    pub(crate) records: Records,
}

pub(crate) fn page(facts: &Facts, now: Timestamp, details: bool) -> Page {
    let backup = &facts.backup;
    let mut page = Page::default();
    page.text("Name", backup.name_any());
    page.text("Namespace", backup.namespace().unwrap_or_default());
    head(&mut page, backup, facts.records.store.as_deref(), now);
    metadata(&mut page, &backup.metadata, details);
    validation(&mut page, backup.status.as_ref().and_then(|status| status.validation_errors.as_deref()));
    let count = |read: fn(&lifeboat_api::velero::BackupStatus) -> Option<i64>| {
        backup.status.as_ref().and_then(read).unwrap_or_default()
    };
    results::put(
        &mut page,
        facts.records.results.as_ref(),
        count(|status| status.errors),
        count(|status| status.warnings),
    );
    page.page("What", spec(&backup.spec, details));
    order(&mut page, &backup.spec);
    hooks(&mut page, backup.spec.hooks.as_ref(), details);
    volumes(&mut page, facts.records.volumes.as_ref(), details);
    objects_volumes::put(&mut page, facts.records.plugin_volumes.as_ref(), now, details);
    operations(&mut page, backup, facts.records.operations.as_ref());
    resources(&mut page, facts.records.resources.as_ref());
    deletions(&mut page, &facts.deletions);
    page
}

fn head(page: &mut Page, backup: &Backup, store: Option<&str>, now: Timestamp) {
    let status = backup.status.clone().unwrap_or_default();
    let phase = backup.phase();
    page.text("Phase", phase.as_str());
    page.text_if("Reason", status.failure_reason.clone());
    if *phase == BackupPhase::Queued {
        let position = status.queue_position.unwrap_or_default();
        page.say("Queue position", position.to_string(), position);
    }
    if let Some(progress) = &status.progress {
        let (done, total) = (progress.items_backed_up, progress.total_items);
        page.items(done.unwrap_or_default(), total.unwrap_or_default(), phase.is_terminal());
    }
    waiting(page, &backup.metadata, phase.is_terminal(), now);
    times(page, status.start_timestamp.as_ref(), status.completion_timestamp.as_ref(), now);
    if let Some(Time(expires)) = status.expiration {
        page.say("Expires", format!("{} ({})", moment(expires), relative(expires, now)), instant(expires));
    }
    page.text(
        "Storage location",
        backup.spec.storage_location.clone().unwrap_or_else(|| "the default".to_owned()),
    );
    page.text_if("Store", store);
    if matches!(phase, BackupPhase::Failed | BackupPhase::PartiallyFailed) {
        page.text("Next step", format!("lifeboat backup logs {}", backup.name_any()));
    }
}

/// Lists what a backup or restore waits for while it runs.
pub(crate) fn waiting(page: &mut Page, metadata: &kube::api::ObjectMeta, has_ended: bool, now: Timestamp) {
    let annotation = metadata.annotations.as_ref().and_then(|all| all.get(WAITING));
    let waits = Waits::read(annotation.map(String::as_str));
    if waits.waits.is_empty() || has_ended {
        return;
    }
    let mut lines: Vec<String> = waits
        .waits
        .iter()
        .map(|wait| format!("{wait}, for {} now", span(now.duration_since(wait.since))))
        .collect();
    if waits.more > 0 {
        lines.push(format!("and {} more", waits.more));
    }
    page.put("Waiting", Node::List(lines));
}

/// Adds start, end and duration.
pub(crate) fn times(page: &mut Page, start: Option<&Time>, end: Option<&Time>, now: Timestamp) {
    if let Some(Time(start)) = start {
        page.say("Started", format!("{} ({})", moment(*start), relative(*start, now)), instant(*start));
    }
    if let Some(Time(end)) = end {
        let took = start
            .map(|Time(start)| format!(" (took {})", span(end.duration_since(*start))))
            .unwrap_or_default();
        page.say("Ended", format!("{}{took}", moment(*end)), instant(*end));
    }
}

/// Adds labels, and with details annotations.
pub(crate) fn metadata(page: &mut Page, metadata: &kube::api::ObjectMeta, details: bool) {
    let annotations = metadata.annotations.as_ref().filter(|_| details);
    for (label, map) in [("Labels", metadata.labels.as_ref()), ("Annotations", annotations)] {
        let mut inner = Page::default();
        for (key, value) in map.into_iter().flatten() {
            inner.named(key, Node::Text(value.clone()));
        }
        page.page(label, inner);
    }
}

pub(crate) fn validation(page: &mut Page, errors: Option<&[String]>) {
    if let Some(errors) = errors.filter(|errors| !errors.is_empty()) {
        page.put("Validation errors", Node::List(errors.to_vec()));
    }
}

/// What the backup contains and how volumes are backed up.
pub(crate) fn spec(spec: &BackupSpec, details: bool) -> Page {
    let mut page = Page::default();
    page.list_or("Namespaces", spec.included_namespaces.as_deref(), "all");
    page.list_if("Without namespaces", spec.excluded_namespaces.as_deref());
    page.list_or("Types", spec.included_resources.as_deref(), "all");
    page.list_if("Without types", spec.excluded_resources.as_deref());
    page.list_if("Cluster-scoped types", spec.included_cluster_scoped_resources.as_deref());
    page.list_if("Without cluster-scoped types", spec.excluded_cluster_scoped_resources.as_deref());
    page.list_if("Types in namespaces", spec.included_namespace_scoped_resources.as_deref());
    page.list_if("Without types in namespaces", spec.excluded_namespace_scoped_resources.as_deref());
    page.text_if(
        "Cluster-scoped objects",
        spec.include_cluster_resources.map(|all| if all { "all" } else { "none" }),
    );
    page.text_if("Labels", spec.label_selector.as_ref().map(selector_text));
    let any: Vec<_> = spec.or_label_selectors.iter().flatten().map(selector_text).collect();
    page.text_if("Any of the labels", (!any.is_empty()).then(|| any.join(" or ")));
    page.text_if(
        "Resource policies",
        spec.resource_policy.as_ref().map(|policy| format!("ConfigMap {}", policy.name)),
    );
    page.text_if("Keep for", GoDuration::set(spec.ttl).map(|ttl| ttl.to_string()));
    page.flag_if("Snapshot volumes", spec.snapshot_volumes);
    page.flag_if("Move snapshot data", spec.snapshot_move_data.filter(|value| *value || details));
    let copy = spec.default_volumes_to_fs_backup.filter(|value| *value || details);
    page.flag_if("Copy files of all volumes", copy);
    if details {
        page.list_if("Snapshot locations", spec.volume_snapshot_locations.as_deref());
        page.text_if("Data mover", spec.datamover.clone().filter(|name| !name.is_empty()));
        let parallel = spec.uploader_config.as_ref().and_then(|config| config.parallel_files_upload);
        page.text_if("Files at a time", parallel.map(|count| count.to_string()));
        page.text_if(
            "CSI snapshot timeout",
            GoDuration::set(spec.csi_snapshot_timeout).map(|time| time.to_string()),
        );
        page.text_if(
            "Item operation timeout",
            GoDuration::set(spec.item_operation_timeout).map(|time| time.to_string()),
        );
    }
    page
}

/// For each type the names in their order.
pub(crate) fn order(page: &mut Page, spec: &BackupSpec) {
    let mut inner = Page::default();
    for (kind, names) in spec.ordered_resources.iter().flatten() {
        let names = names.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
        inner.named(kind, Node::Ordered(names.collect()));
    }
    page.page("Ordered resources", inner);
}

pub(crate) fn hooks(page: &mut Page, hooks: Option<&BackupHooks>, details: bool) {
    let mut inner = Page::default();
    for hook in hooks.iter().flat_map(|hooks| hooks.resources.iter().flatten()) {
        let commands = |which: &str, hooks: &Option<Vec<BackupResourceHook>>| -> Vec<String> {
            let command = |hook: &BackupResourceHook| {
                let container =
                    hook.exec.container.as_ref().map(|name| format!(" in {name}")).unwrap_or_default();
                if details {
                    format!("{which}{container}: {}", hook.exec.command.join(" "))
                } else {
                    which.to_owned()
                }
            };
            hooks.iter().flatten().map(command).collect()
        };
        let mut lines = commands("pre", &hook.pre);
        lines.extend(commands("post", &hook.post));
        inner.named(&hook.name, if details { Node::List(lines) } else { Node::Text(lines.join(", ")) });
    }
    page.page("Hooks", inner);
}

/// Failed and skipped volumes are always listed, the others only with details.
pub(crate) fn volumes(page: &mut Page, volumes: Option<&Result<Vec<Volume>, NotFetched>>, details: bool) {
    let volumes = match volumes {
        None => return,
        Some(Err(reason)) => return page.text("Volumes", format!("cannot be shown: {reason}")),
        Some(Ok(volumes)) => volumes,
    };
    let of = |keep: fn(&Volume) -> bool| -> Vec<(String, Value)> {
        volumes.iter().filter(|volume| keep(volume)).map(|volume| (volume.text(), json!(volume))).collect()
    };
    page.block("Failed volumes", "failedVolumes", of(|volume| !volume.skipped && volume.result == "failed"));
    let heading = "Skipped volumes (their data is not in the backup)";
    page.block(heading, "skippedVolumes", of(|volume| volume.skipped));
    let good = of(|volume| !volume.skipped && volume.result != "failed");
    if details {
        page.block("Volumes", "volumes", good);
    } else if !good.is_empty() {
        let values: Value = good.iter().map(|(_, value)| value.clone()).collect();
        page.say("Volumes", format!("{} (see them with --details)", good.len()), values);
    }
}

fn operations(page: &mut Page, backup: &Backup, operations: Option<&Result<Vec<Value>, NotFetched>>) {
    let status = backup.status.clone().unwrap_or_default();
    let counts = (
        status.backup_item_operations_attempted.unwrap_or_default(),
        status.backup_item_operations_completed.unwrap_or_default(),
        status.backup_item_operations_failed.unwrap_or_default(),
    );
    put_operations(page, counts, operations);
    if let Some(hooks) = status.hook_status.filter(|hooks| hooks.hooks_attempted.unwrap_or_default() > 0) {
        let (run, failed) =
            (hooks.hooks_attempted.unwrap_or_default(), hooks.hooks_failed.unwrap_or_default());
        page.text("Hooks run", format!("{run}, of which {failed} failed"));
    }
}

pub(crate) fn put_hooks(page: &mut Page, hooks: &HookStatus) {
    let (run, failed) = (hooks.hooks_attempted.unwrap_or_default(), hooks.hooks_failed.unwrap_or_default());
    let value = json!({"attempted": run, "failed": failed});
    page.say("Hooks run", format!("{run}, of which {failed} failed"), value);
}

/// `counts`: operations started, completed, failed.
pub(crate) fn put_operations(
    page: &mut Page,
    counts: (i64, i64, i64),
    operations: Option<&Result<Vec<Value>, NotFetched>>,
) {
    let (begun, good, bad) = counts;
    if begun > 0 {
        let value = json!({"attempted": begun, "completed": good, "failed": bad});
        page.say("Plugin operations", format!("{good} of {begun} completed, {bad} failed"), value);
    }
    match operations {
        Some(Ok(list)) if !list.is_empty() => {
            let items = list.iter().map(|one| (operation(one), one.clone())).collect();
            page.block("Operations", "operations", items);
        }
        Some(Err(reason)) => page.text("Operations", format!("cannot be shown: {reason}")),
        _ => {}
    }
}

fn operation(operation: &Value) -> String {
    let at = |pointer: &str| operation.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let item = ["Resource", "Namespace", "Name"]
        .map(|field| at(&format!("/spec/resourceIdentifier/{field}")))
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("/");
    let error = at("/status/error");
    let error = if error.is_empty() { String::new() } else { format!(": {error}") };
    format!("{item} {}: {}{error}", at("/spec/operationID"), at("/status/phase"))
}

pub(crate) fn resources(
    page: &mut Page,
    resources: Option<&Result<BTreeMap<String, Vec<String>>, NotFetched>>,
) {
    match resources {
        None => {}
        Some(Err(reason)) => page.text("Objects", format!("cannot be shown: {reason}")),
        Some(Ok(types)) => {
            let mut inner = Page::default();
            for (kind, names) in types {
                inner.named(kind, Node::List(names.clone()));
            }
            page.page("Objects", inner);
        }
    }
}

fn deletions(page: &mut Page, deletions: &[DeleteBackupRequest]) {
    let requests = deletions.iter().map(|request| {
        let errors = request.status.as_ref().and_then(|status| status.errors.clone()).unwrap_or_default();
        if errors.is_empty() {
            request.phase().to_string()
        } else {
            format!("{}: {}", request.phase(), errors.join("; "))
        }
    });
    let requests: Vec<_> = requests.collect();
    if !requests.is_empty() {
        page.put("Deletion requested", Node::List(requests));
    }
}
