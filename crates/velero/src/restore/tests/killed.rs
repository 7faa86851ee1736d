//! Servers that are killed while actions begin operations.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use lifeboat_archive::documents::RestoreOperation;
use lifeboat_plan::items::waits::WAITING;
use lifeboat_plugin::actions::{RestoreItemAction, RestoreOutcome};
use serde_json::json;

use super::setting::{RESTORE, Setting, files, shop};
use crate::testing::acts::Acts;

const JOURNAL: &str = "/api/v1/namespaces/lifeboat/configmaps/lifeboat-restore-journal-ru";

fn next_attempt(setting: &Setting) {
    let attempt = json!({"metadata": {"annotations": {"lifeboat.io/attempt": "2"}}});
    setting.server.change(RESTORE, &attempt);
}

#[tokio::test]
async fn wherever_a_server_is_killed_no_operation_is_forgotten_in_silence() {
    let mut adopted = 0;
    for requests in 1.. {
        let begun: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let (kept, number) = (begun.clone(), AtomicUsize::new(0));
        let action = Arc::new(
            Acts::on(&["configmaps"], move |item| {
                let id = format!("op-{}", number.fetch_add(1, Ordering::Relaxed));
                kept.lock().unwrap().insert(id.clone());
                Ok(RestoreOutcome { operation_id: Some(id), ..RestoreOutcome::item(item) })
            })
            .operating(),
        );
        let mut setting = Setting::holding(json!({}), &shop()).await;
        setting.actions = vec![action.clone() as Arc<dyn RestoreItemAction>];
        if setting.run_until(requests).await {
            break;
        }
        if setting.status()["phase"] == "Completed" {
            // It had ended: no server continues it.
            break;
        }
        let before = begun.lock().unwrap().len();
        next_attempt(&setting);
        let status = setting.run().await;
        let operations: Vec<RestoreOperation> = setting.get(&files().item_operations()).await;
        let known: BTreeSet<String> = operations.into_iter().map(|one| one.spec.operation_id).collect();
        assert_eq!(known.len(), 3, "one for each item, killed after {requests}");
        adopted += usize::from(before > 0 && action.calls() < before + 3);
        let mut lost = begun.lock().unwrap().clone();
        lost.retain(|id| !known.contains(id) && !action.cancelled.lock().unwrap().contains(id));
        let errors = setting.results().await.errors;
        let reported = errors.all().any(|(_, message)| message.contains("it is unknown whether"));
        assert!(lost.is_empty() || reported, "killed after {requests}: {lost:?}, {errors:?}");
        let expected = if reported { "PartiallyFailed" } else { "Completed" };
        assert_eq!(status["phase"], expected, "killed after {requests}: {errors:?}");
    }
    assert!(adopted > 0, "operations of items that were there went on");
}

#[tokio::test]
async fn operations_that_storage_has_no_list_of_are_found_in_the_journal() {
    let action = Arc::new(Acts::on(&["configmaps"], |item| Ok(RestoreOutcome::item(item))).operating());
    let mut setting = Setting::holding(json!({}), &shop()).await;
    setting.actions = vec![action as Arc<dyn RestoreItemAction>];
    let mut operation = RestoreOperation::default();
    operation.spec.restore_item_action = "example.io/acts".into();
    operation.spec.operation_id = "old".into();
    let journal = json!({"metadata": {"name": "j"}, "data": {"operation.x": json!(operation).to_string()}});
    setting.server.put(JOURNAL, journal);
    setting.set_status(RESTORE, json!({"phase": "WaitingForPluginOperations"}));
    let status = setting.run().await;
    assert_eq!(
        (&status["phase"], &status["restoreItemOperationsCompleted"]),
        (&json!("Completed"), &json!(1))
    );
}

#[tokio::test]
async fn what_is_waited_for_is_shown_while_it_is_and_gone_at_the_end() {
    let setting = Setting::holding(json!({}), &shop()).await;
    let shown: Arc<Mutex<Option<String>>> = Arc::default();
    let (server, kept) = (setting.server.clone(), shown.clone());
    let action = Acts::on(&["configmaps"], |item| {
        Ok(RestoreOutcome { wait_for_additional_items: true, ..RestoreOutcome::item(item) })
    });
    let action = action.ready(move |_, _| {
        let restore = server.get(RESTORE).unwrap();
        let text = restore["metadata"]["annotations"][WAITING].as_str().map(str::to_owned);
        let is_shown = text.is_some();
        if is_shown {
            *kept.lock().unwrap() = text;
        }
        Ok(is_shown)
    });
    let setting = Setting { actions: vec![Arc::new(action) as Arc<dyn RestoreItemAction>], ..setting };
    let status = setting.run().await;
    assert_eq!(status["phase"], "Completed", "{status}");
    let text = shown.lock().unwrap().clone().unwrap();
    assert!(text.contains("configmaps/shop/") && text.contains("example.io/acts"), "{text}");
    let annotations = &setting.object(RESTORE).unwrap()["metadata"]["annotations"];
    assert_eq!(annotations.get(WAITING), None, "{annotations}");
}
