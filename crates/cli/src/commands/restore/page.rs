//! The page of `lifeboat restore describe`, made from the Restore and the records read for it.

use jiff::Timestamp;
use kube::ResourceExt;
use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::{ExistingResourcePolicy, Restore, RestorePhase, RestoreSpec, RestoreStatus};
use lifeboat_plan::items::waits::WAITING;

use crate::commands::backup::page::{
    metadata, put_hooks, put_operations, resources, times, validation, volumes,
};
use crate::commands::describe::Records;
use crate::objects::get::selector_text;
use crate::objects::results;
use crate::objects::show::{Node, Page};
use crate::objects::volumes as objects_volumes;

/// Everything that the page is made from.
pub(crate) struct Facts {
    pub(crate) restore: Restore,
    /// The location of its backup.
    pub(crate) location: String,
    pub(crate) records: Records,
}

pub(crate) fn page(facts: &Facts, now: Timestamp, details: bool) -> Page {
    let restore = &facts.restore;
    let status = restore.status.clone().unwrap_or_default();
    let mut page = Page::default();
    page.text("Name", restore.name_any());
    page.text("Namespace", restore.namespace().unwrap_or_default());
    head(&mut page, facts, &status, now);
    metadata(&mut page, &restore.metadata, details);
    validation(&mut page, status.validation_errors.as_deref());
    let (errors, warnings) = (status.errors.unwrap_or_default(), status.warnings.unwrap_or_default());
    results::put(&mut page, facts.records.results.as_ref(), errors, warnings);
    page.page("What", spec(&restore.spec, details));
    mapping(&mut page, &restore.spec);
    hooks(&mut page, &restore.spec, &status);
    volumes(&mut page, facts.records.volumes.as_ref(), details);
    objects_volumes::put(&mut page, facts.records.plugin_volumes.as_ref(), now, details);
    let counts = (
        status.restore_item_operations_attempted.unwrap_or_default(),
        status.restore_item_operations_completed.unwrap_or_default(),
        status.restore_item_operations_failed.unwrap_or_default(),
    );
    put_operations(&mut page, counts, facts.records.operations.as_ref());
    resources(&mut page, facts.records.resources.as_ref());
    page
}

fn head(page: &mut Page, facts: &Facts, status: &RestoreStatus, now: Timestamp) {
    let restore = &facts.restore;
    let deleting = if restore.metadata.deletion_timestamp.is_some() { " (Deleting)" } else { "" };
    page.text("Phase", format!("{}{deleting}", restore.phase()));
    page.text_if("Reason", status.failure_reason.clone());
    page.text_if("Backup", restore.spec.backup_name.clone().filter(|name| !name.is_empty()));
    page.text_if("Schedule", restore.spec.schedule_name.clone().filter(|name| !name.is_empty()));
    page.text_if("Storage location", Some(facts.location.clone()).filter(|name| !name.is_empty()));
    page.text_if("Store", facts.records.store.clone());
    if let Some(progress) = &status.progress {
        let (done, total) = (progress.items_restored, progress.total_items);
        page.items(done.unwrap_or_default(), total.unwrap_or_default(), restore.phase().is_terminal());
    }
    page.waits(restore.annotations().get(WAITING).filter(|_| !restore.phase().is_terminal()), now);
    times(page, status.start_timestamp.as_ref(), status.completion_timestamp.as_ref(), now);
    if matches!(restore.phase(), RestorePhase::Failed | RestorePhase::PartiallyFailed) {
        page.text("Next step", format!("lifeboat restore logs {}", restore.name_any()));
    }
}

fn spec(spec: &RestoreSpec, details: bool) -> Page {
    let mut page = Page::default();
    let all = "all in the backup";
    page.list_or("Namespaces", spec.included_namespaces.as_deref(), all);
    page.list_if("Without namespaces", spec.excluded_namespaces.as_deref());
    page.list_or("Types", spec.included_resources.as_deref(), all);
    // The server adds a fixed list of types, which is not specific to this restore.
    page.list_if("Without types", spec.excluded_resources.as_deref().filter(|_| details));
    page.text_if(
        "Cluster-scoped objects",
        spec.include_cluster_resources.map(|all| if all { "all" } else { "none" }),
    );
    page.text_if("Labels", spec.label_selector.as_ref().map(selector_text));
    let any: Vec<_> = spec.or_label_selectors.iter().flatten().map(selector_text).collect();
    page.text_if("Any of the labels", (!any.is_empty()).then(|| any.join(" or ")));
    let policy = spec.existing_resource_policy.as_ref().map_or("none", ExistingResourcePolicy::as_str);
    let effect = match policy {
        "" | "none" => "stay as they are",
        "update" => "are updated",
        other => other,
    };
    page.say("Objects that exist", effect, policy);
    page.flag_if("Restore volumes", spec.restore_pvs);
    page.flag_if("Keep node ports", spec.preserve_node_ports);
    if let Some(status) = &spec.restore_status {
        page.list_or("Status of", status.included_resources.as_deref(), all);
        page.list_if("Without status of", status.excluded_resources.as_deref());
    }
    page.text_if(
        "Resource modifiers",
        spec.resource_modifier.as_ref().map(|map| format!("ConfigMap {}", map.name)),
    );
    page.text_if(
        "Resource policies",
        spec.resource_policy.as_ref().map(|map| format!("ConfigMap {}", map.name)),
    );
    if details {
        page.text_if(
            "Item operation timeout",
            GoDuration::set(spec.item_operation_timeout).map(|time| time.to_string()),
        );
        let uploader = spec.uploader_config.clone().unwrap_or_default();
        page.flag_if("Sparse files", uploader.write_sparse_files);
        page.text_if(
            "Files at a time",
            uploader.parallel_files_download.filter(|count| *count > 0).map(|count| count.to_string()),
        );
    }
    page
}

fn mapping(page: &mut Page, spec: &RestoreSpec) {
    let mut inner = Page::default();
    for (from, to) in spec.namespace_mapping.iter().flatten() {
        inner.named(from, Node::Said(format!("restored as {to}"), to.clone().into()));
    }
    page.page("Namespace mappings", inner);
}

fn hooks(page: &mut Page, spec: &RestoreSpec, status: &RestoreStatus) {
    let names: Vec<_> = spec
        .hooks
        .iter()
        .flat_map(|hooks| hooks.resources.iter().flatten())
        .map(|hook| hook.name.clone())
        .collect();
    if !names.is_empty() {
        page.put("Hooks", Node::List(names));
    }
    if let Some(hooks) =
        status.hook_status.as_ref().filter(|hooks| hooks.hooks_attempted.unwrap_or_default() > 0)
    {
        put_hooks(page, hooks);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use lifeboat_plan::items::waits::WAITING;
    use serde_json::json;

    use super::*;

    fn partial() -> Facts {
        let restore = json!({"apiVersion": "velero.io/v1", "kind": "Restore",
            "metadata": {"name": "back", "namespace": "lifeboat"},
            "spec": {"backupName": "nightly-20261116030000", "includedNamespaces": ["*"], "excludedResources": ["nodes", "events"],
                "namespaceMapping": {"shop": "shop-test"}, "existingResourcePolicy": "update",
                "hooks": {"resources": [{"name": "thaw", "postHooks": []}]}, "itemOperationTimeout": "4h0m0s"},
            "status": {"phase": "PartiallyFailed", "errors": 1, "warnings": 1, "startTimestamp": "2026-11-16T03:00:00Z",
                "completionTimestamp": "2026-11-16T03:00:12Z", "progress": {"totalItems": 10, "itemsRestored": 9}}});
        let records = Records {
            results: Some(Ok(serde_json::from_value(json!({
                "errors": {"namespaces": {"shop-test": ["error restoring deployments.apps/shop-test/web: quota exceeded"]}},
                "warnings": {"cluster": ["could not restore, StorageClass:fast already exists. Warning: the in-cluster version is different than the backed-up version"]},
            }))
            .unwrap())),
            volumes: Some(Ok(Vec::new())),
            resources: Some(Ok(BTreeMap::from([("v1/Pod".into(), vec!["shop-test/web(created)".into()])]))),
            ..Records::default()
        };
        Facts { restore: serde_json::from_value(restore).unwrap(), location: String::new(), records }
    }

    #[test]
    fn the_store_of_the_location_is_named() {
        let mut facts = partial();
        facts.location = "default".into();
        facts.records.store = Some("the built-in store".into());
        let text = page(&facts, "2026-11-16T12:00:00Z".parse().unwrap(), false).to_text();
        let ends =
            |label: &str, end: &str| text.lines().any(|line| line.starts_with(label) && line.ends_with(end));
        assert!(ends("Storage location:", "default") && ends("Store:", "the built-in store"), "{text}");
    }

    #[test]
    fn a_restore_at_a_glance() {
        let mut facts = partial();
        facts.records.resources = None;
        insta::assert_snapshot!(page(&facts, "2026-11-16T12:00:00Z".parse().unwrap(), false).to_text());
    }

    #[test]
    fn a_restore_that_waits_says_for_what_and_how_long() {
        let mut facts = partial();
        let waits = json!({"waits": [{"item": "pods/shop/web", "for": ["services shop/db"], "action": "example.io/x",
            "since": "2026-11-16T11:59:00Z"}], "more": 2});
        facts.restore.metadata.annotations = Some([(WAITING.to_owned(), waits.to_string())].into());
        let text = |facts: &Facts| page(facts, "2026-11-16T12:00:00Z".parse().unwrap(), false).to_text();
        assert!(!text(&facts).contains("Waiting"), "a restore that has ended waits for nothing");
        facts.restore.status.as_mut().unwrap().phase = Some(RestorePhase::InProgress);
        let text = text(&facts);
        assert!(
            text.contains(
                "pods/shop/web waits for services shop/db since 2026-11-16T11:59:00Z (example.io/x), for 60s now"
            ),
            "{text}"
        );
        assert!(text.contains("and 2 more"), "{text}");
    }

    #[test]
    fn a_restore_in_detail() {
        let page = page(&partial(), "2026-11-16T12:00:00Z".parse().unwrap(), true);
        insta::assert_snapshot!(page.to_text());
        insta::assert_json_snapshot!("a_restore_as_json", page.to_json());
    }
}
