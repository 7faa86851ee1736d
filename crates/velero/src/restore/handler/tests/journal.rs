//! Operations that actions start, across a restart of the server: continued or cancelled, never forgotten.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lifeboat_archive::documents::{RestoreOperation, RestoreOperationSpec};
use lifeboat_cluster::testing::failure;
use lifeboat_plugin::actions::{RestoreItemAction, RestoreOutcome};
use serde_json::{Value, json};

use super::actions::id;
use super::shop;
use super::world::{Api, World, object};
use crate::testing::acts::Acts;

type Acting = Acts<RestoreOutcome>;

const JOURNAL: &str = "/api/v1/namespaces/lifeboat/configmaps/lifeboat-restore-journal-ru";
const SETTINGS: &str = "/api/v1/namespaces/shop/configmaps/settings";

/// Begins an operation for each ConfigMap.
fn operates() -> Arc<Acting> {
    let number = AtomicUsize::new(0);
    let action = Acts::on(&["configmaps"], move |item| {
        let id = format!("new-{}", number.fetch_add(1, Ordering::Relaxed));
        Ok(RestoreOutcome { operation_id: Some(id), ..RestoreOutcome::item(item) })
    });
    Arc::new(action.operating())
}

fn world(action: &Arc<Acting>) -> World {
    let mut world = World::new(shop());
    world.actions = vec![action.clone() as Arc<dyn RestoreItemAction>];
    world
}

/// The journal of an earlier attempt that had come to `operation`; empty: to the call.
fn noted(operation: &str) -> Value {
    let operation = RestoreOperation {
        spec: RestoreOperationSpec {
            restore_item_action: "example.io/acts".into(),
            resource_identifier: (&id("configmaps", "shop", "settings")).into(),
            operation_id: operation.into(),
            ..RestoreOperationSpec::default()
        },
        ..RestoreOperation::default()
    };
    json!({"metadata": {"name": "lifeboat-restore-journal-ru"}, "data": {"operation.x": json!(operation).to_string()}})
}

fn ours() -> Value {
    let mut ours = object("v1", "ConfigMap", "shop/settings");
    ours["metadata"]["labels"] = json!({"velero.io/restore-name": "r"});
    ours["metadata"]["creationTimestamp"] = json!("2026-11-15T23:00:01Z");
    ours
}

fn entries(api: &Api) -> Vec<RestoreOperation> {
    let journal = api.object(JOURNAL).unwrap_or_default();
    let texts = journal["data"].as_object().into_iter().flatten().filter_map(|(_, text)| text.as_str());
    texts.map(|text| serde_json::from_str(text).unwrap()).collect()
}

#[tokio::test]
async fn an_operation_is_noted_before_its_item_is_created() {
    let action = operates();
    let mut world = world(&action);
    world.rule = Box::new(|asked, api| {
        if asked.method == "POST" && asked.body["metadata"]["name"] == "settings" {
            assert_eq!(entries(api)[0].spec.operation_id, "new-0");
        }
        None
    });
    let (ended, api) = world.restore().await;
    assert_eq!(ended.operations.len(), 1);
    assert_eq!(entries(&api)[0].spec, ended.operations[0].spec);
    assert_eq!(api.object(JOURNAL).unwrap()["metadata"]["ownerReferences"][0]["uid"], "ru");
}

#[tokio::test]
async fn an_action_that_begins_nothing_leaves_nothing_in_the_journal_for_long() {
    let action: Acting = Acts::on(&["secrets"], |item| Ok(RestoreOutcome::item(item)));
    let action = Arc::new(action.operating());
    let mut world = world(&action);
    world.objects.extend((0..200).map(|number| object("v1", "Secret", &format!("shop/s{number}"))));
    let writes = Arc::new(AtomicUsize::new(0));
    let counted = writes.clone();
    world.rule = Box::new(move |asked, _| {
        if asked.path.contains("lifeboat-restore-journal") || asked.path.contains("/lifeboat/configmaps") {
            counted.fetch_add(usize::from(asked.method != "GET"), Ordering::Relaxed);
        }
        None
    });
    let (ended, _) = world.restore().await;
    assert!(ended.operations.is_empty() && ended.results.errors.is_empty(), "{:?}", ended.results);
    assert_eq!(
        (action.calls(), writes.load(Ordering::Relaxed)),
        (200, 3),
        "only the first call is noted, and forgotten"
    );
}

#[tokio::test]
async fn after_a_restart_the_operations_of_items_that_are_there_go_on() {
    let action = operates();
    let mut world = world(&action);
    world.there = vec![(JOURNAL, noted("old")), (SETTINGS, ours())];
    let (ended, _) = world.restore().await;
    assert!(ended.results.errors.is_empty() && ended.results.warnings.is_empty(), "{:?}", ended.results);
    assert_eq!((action.calls(), action.cancelled.lock().unwrap().len()), (0, 0));
    assert_eq!(ended.operations.len(), 1);
    assert_eq!(ended.operations[0].spec.operation_id, "old");
}

#[tokio::test]
async fn after_a_restart_the_operations_of_items_that_are_not_there_are_cancelled_and_begun_anew() {
    let action = operates();
    let mut world = world(&action);
    world.there = vec![(JOURNAL, noted("old"))];
    let (ended, _) = world.restore().await;
    assert!(ended.results.errors.is_empty(), "{:?}", ended.results);
    assert_eq!(*action.cancelled.lock().unwrap(), ["old"]);
    assert_eq!(ended.operations[0].spec.operation_id, "new-0");
}

#[tokio::test]
async fn a_call_of_unknown_outcome_makes_the_restore_partial() {
    let action = operates();
    let mut world = world(&action);
    world.there = vec![(JOURNAL, noted(""))];
    let (ended, api) = world.restore().await;
    let errors = &ended.results.errors.namespaces["shop"];
    assert!(
        errors[0].contains("it is unknown whether an operation of the first call is still running"),
        "{errors:?}"
    );
    assert_eq!((action.calls(), api.object(SETTINGS).is_some()), (1, true));
}

#[tokio::test]
async fn a_journal_that_cannot_be_written_is_a_warning() {
    let action = operates();
    let mut world = world(&action);
    world.rule = Box::new(|asked, _| {
        (asked.method != "GET" && asked.path.contains("/lifeboat/configmaps"))
            .then(|| failure(403, "Forbidden"))
    });
    let (ended, _) = world.restore().await;
    assert_eq!(ended.operations.len(), 1);
    let warnings = &ended.results.warnings.namespaces["shop"];
    assert!(
        warnings.iter().any(|message| message.contains("new-0") && message.contains("not recorded")),
        "{warnings:?}"
    );
}

/// An object holds a megabyte: some thousands of operations.
#[tokio::test]
async fn a_journal_that_is_full_is_told_once_and_holds_nothing_up() {
    let action = operates();
    let mut world = world(&action);
    world.objects.extend((0..200).map(|number| object("v1", "ConfigMap", &format!("shop/c{number}"))));
    world.rule = Box::new(|asked, _| {
        (asked.method != "GET" && asked.path.contains("/lifeboat/configmaps"))
            .then(|| failure(422, "Invalid"))
    });
    let begin = std::time::Instant::now();
    let (ended, _) = world.restore().await;
    assert_eq!(ended.operations.len(), 201);
    let warnings = &ended.results.warnings.namespaces["shop"];
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("is full"), "{warnings:?}");
    assert!(begin.elapsed() < std::time::Duration::from_secs(30));
}
