//! Backups with operations in the background, by an action of a few lines.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use jiff::Timestamp;
use lifeboat_api::velero::BackupPhase;
use lifeboat_archive::documents::{BackupOperation, Results, decode, decode_list};
use lifeboat_plan::catalogue::{GroupResource, ItemId};
use lifeboat_plugin::actions::{AppliesTo, BackupItemAction, BackupOutcome, Lookup, OperationProgress};
use lifeboat_plugin::{ActionError, Registry};

use super::*;
use crate::backup::world::archived_object;

/// Moves config maps: begins an operation for each, which changes a Secret.
#[derive(Default)]
struct Mover {
    done: AtomicBool,
    cancelled: AtomicBool,
    post: Vec<ItemId>,
}

#[async_trait]
impl BackupItemAction for Mover {
    fn name(&self) -> &'static str {
        "example.com/mover"
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        Ok(AppliesTo::resources(&["configmaps", "secrets"]))
    }

    async fn execute(
        &self,
        mut item: Value,
        backup: &Backup,
        _: &dyn Lookup,
    ) -> Result<BackupOutcome, ActionError> {
        item["touched"] = true.into();
        let finalizing = *backup.phase() != BackupPhase::InProgress;
        let operates = item["kind"] == "ConfigMap" && !finalizing;
        let operation_id = operates.then(|| "operation".to_owned());
        let post = if operates { self.post.clone() } else { Vec::new() };
        Ok(BackupOutcome { item, operation_id, post_operation_items: post, ..BackupOutcome::default() })
    }

    async fn progress(&self, _: &str, _: &Backup) -> Result<OperationProgress, ActionError> {
        Ok(OperationProgress { completed: self.done.load(Ordering::Relaxed), ..OperationProgress::default() })
    }

    async fn cancel(&self, _: &str, _: &Backup) -> Result<(), ActionError> {
        self.cancelled.store(true, Ordering::Relaxed);
        Ok(())
    }
}

fn secret(name: &str) -> ItemId {
    ItemId::namespaced(GroupResource::new("", "secrets"), "shop", name)
}

async fn server(mover: Mover) -> (Server, Arc<Mover>) {
    let mut server = Server::new().await;
    server.world.add("secrets", "shop", "moved", json!({"data": {"state": "old"}}));
    let mover = Arc::new(mover);
    server.context.actions = Arc::new(Registry { backup: vec![mover.clone()], ..Registry::default() });
    (server, mover)
}

const OPERATIONS: &str = "/api/v1/namespaces/lifeboat/configmaps/lifeboat-operations-uid-b";

/// What a server that was killed left: a Backup in its pass, and an operation of it.
fn interrupted(server: &Server, annotations: &Value) {
    let entry = json!({"backup": "b", "action": "example.com/mover", "operation": "first", "item": "configmaps/shop/settings"});
    let metadata = json!({"name": "lifeboat-operations-uid-b", "labels": {"lifeboat.io/journal": "backup"}});
    let data = json!({"operation.1": entry.to_string()});
    server.world.put(OPERATIONS, json!({"metadata": metadata, "data": data}));
    let mut all = annotations.clone();
    all["lifeboat.io/attempt"] = "1".into();
    let rest = json!({"status": {"phase": "InProgress", "startTimestamp": "2026-01-01T00:00:00Z"},
        "metadata": {"annotations": all}});
    server.add("b", json!({"includedNamespaces": ["shop"], "storageLocation": "default"}), &rest);
}

#[tokio::test]
async fn an_operation_is_durable_as_soon_as_it_has_begun_and_its_note_goes_with_the_pass() {
    let (server, _) = server(Mover::default()).await;
    server.add("b", json!({"includedNamespaces": ["shop"]}), &json!({}));
    let seen = Arc::new(Mutex::new(Value::Null));
    let kept = seen.clone();
    // Pods come after config maps here.
    server
        .world
        .on_command(move |world, _| *kept.lock().unwrap() = world.get(OPERATIONS).unwrap_or_default());
    assert_eq!(server.settle("b").await, "WaitingForPluginOperations");
    let noted = seen.lock().unwrap().clone();
    assert!(noted["data"].to_string().contains("example.com/mover"), "{noted}");
    assert!(noted["metadata"]["labels"]["lifeboat.io/journal"].is_string(), "{noted}");
    assert!(server.world.get(OPERATIONS).is_none());
}

#[tokio::test]
async fn a_second_attempt_first_cancels_what_the_first_one_began() {
    let (server, mover) = server(Mover::default()).await;
    mover.done.store(true, Ordering::Relaxed);
    interrupted(&server, &json!({}));
    assert_eq!(server.settle("b").await, "Completed");
    assert!(mover.cancelled.load(Ordering::Relaxed));
    assert!(server.world.get(OPERATIONS).is_none());
}

#[tokio::test]
async fn what_the_first_attempt_began_and_nobody_can_cancel_makes_the_backup_partial() {
    let (mut server, _) = server(Mover::default()).await;
    server.context.actions = Arc::new(Registry::default());
    interrupted(&server, &json!({}));
    assert_eq!(server.settle("b").await, "PartiallyFailed");
    let stored = ObjectStore::get(&server.store(), "backups/b/b-results.gz", 1 << 20).await.unwrap();
    let results: Results = decode(&stored).unwrap();
    assert!(format!("{results:?}").contains("operation first of action example.com/mover"), "{results:?}");
}

#[tokio::test]
async fn a_backup_that_fails_after_a_restart_cancels_what_it_began() {
    let (server, mover) = server(Mover::default()).await;
    interrupted(&server, &json!({"lifeboat.io/cancel": "true"}));
    assert_eq!(server.settle("b").await, "Failed");
    assert!(mover.cancelled.load(Ordering::Relaxed));
    assert!(server.world.get(OPERATIONS).is_none());
}

const ARCHIVE: &str = "backups/b/b.tar.gz";
const MOVED: &str = "/api/v1/namespaces/shop/secrets/moved";

#[tokio::test]
async fn items_that_operations_changed_are_written_again_at_the_end() {
    let post = vec![secret("moved"), secret("made"), secret("moved")];
    let (server, mover) = server(Mover { post, ..Mover::default() }).await;
    server.add("b", json!({"includedNamespaces": ["shop"]}), &json!({}));
    assert_eq!(server.settle("b").await, "WaitingForPluginOperations");
    let store = server.store();
    assert!(!ObjectStore::exists(&store, "backups/b/velero-backup.json").await.unwrap());
    let names = archived(&store, ARCHIVE).await;

    server.world.change(MOVED, &json!({"data": {"state": "new"}}));
    server.world.add("secrets", "shop", "made", json!({}));
    mover.done.store(true, Ordering::Relaxed);
    assert_eq!(server.settle("b").await, "Completed");
    for path in ["secrets/namespaces/shop/moved", "secrets/v1-preferredversion/namespaces/shop/moved"] {
        let found = archived_object(&store, ARCHIVE, path).await.unwrap();
        assert_eq!((&found["data"]["state"], &found["touched"]), (&json!("new"), &json!(true)));
    }
    let mut after = archived(&store, ARCHIVE).await;
    assert_eq!(after.pop().as_deref(), Some("secrets/namespaces/shop/made"));
    assert_eq!(after, names, "everything else is where it was");
    let stored = ObjectStore::get(&store, "backups/b/b-itemoperations.json.gz", 1 << 20).await.unwrap();
    let operations: Vec<BackupOperation> = decode_list(&stored).unwrap();
    assert!(operations.iter().all(|operation| operation.status.phase.has_ended()));
    assert_eq!(server.get("b")["status"]["backupItemOperationsCompleted"], 1);
}

#[tokio::test]
async fn an_item_that_is_gone_at_the_end_makes_the_backup_partial() {
    let (server, mover) = server(Mover { post: vec![secret("gone")], ..Mover::default() }).await;
    mover.done.store(true, Ordering::Relaxed);
    server.add("b", json!({"includedNamespaces": ["shop"]}), &json!({}));
    assert_eq!(server.settle("b").await, "PartiallyFailed");
    assert_eq!(server.get("b")["status"]["errors"], 1);
    let stored = ObjectStore::get(&server.store(), "backups/b/b-results.gz", 1 << 20).await.unwrap();
    let results: Results = decode(&stored).unwrap();
    assert!(results.errors.namespaces["shop"][0].contains("gone"), "{results:?}");
}

#[tokio::test]
async fn an_operation_that_does_not_end_in_time_is_cancelled_and_told() {
    let (server, mover) = server(Mover::default()).await;
    server.add("b", json!({"includedNamespaces": ["shop"], "itemOperationTimeout": "300ms"}), &json!({}));
    let mut phase = server.settle("b").await;
    while phase == "WaitingForPluginOperations" {
        phase = server.settle("b").await;
    }
    assert_eq!(phase, "PartiallyFailed");
    assert!(mover.cancelled.load(Ordering::Relaxed));
    assert_eq!(server.get("b")["status"]["backupItemOperationsFailed"], 1);
}

#[tokio::test]
async fn operations_of_a_backup_that_is_cancelled_are_cancelled() {
    let (server, mover) = server(Mover::default()).await;
    server.add("b", json!({"includedNamespaces": ["shop"]}), &json!({}));
    assert_eq!(server.settle("b").await, "WaitingForPluginOperations");
    let cancel = json!({"metadata": {"annotations": {"lifeboat.io/cancel": "true"}}});
    server.world.change(&format!("{BACKUPS}/b"), &cancel);
    assert_eq!(server.settle("b").await, "Failed");
    assert!(mover.cancelled.load(Ordering::Relaxed));
}

#[rstest]
#[case::unavailable_for_a_moment(0, "WaitingForPluginOperations")]
#[case::unavailable_for_long(5, "Failed")]
#[tokio::test]
async fn storage_that_is_away_while_operations_run_is_waited_for_and_given_up_at_last(
    #[case] hours: i64,
    #[case] expected: &str,
) {
    let (server, _) = server(Mover::default()).await;
    server.add("b", json!({"includedNamespaces": ["shop"]}), &json!({}));
    assert_eq!(server.settle("b").await, "WaitingForPluginOperations");
    let location = "/apis/velero.io/v1/namespaces/lifeboat/backupstoragelocations/default";
    server.world.change(location, &json!({"status": {"phase": "Unavailable", "message": "no route"}}));
    let since = Timestamp::now().checked_sub(jiff::SignedDuration::from_hours(hours)).unwrap();
    server.state.problem.lock().unwrap().insert(BackupUid::new("uid-b"), since);
    assert_eq!(server.settle("b").await, expected);
    if expected == "Failed" {
        let reason = server.get("b")["status"]["failureReason"].as_str().unwrap_or_default().to_owned();
        assert!(reason.contains("no route"), "{reason}");
    }
}

#[tokio::test]
async fn a_location_that_is_deleted_while_operations_run_fails_the_backup() {
    let (server, _) = server(Mover::default()).await;
    server.add("b", json!({"includedNamespaces": ["shop"]}), &json!({}));
    assert_eq!(server.settle("b").await, "WaitingForPluginOperations");
    server.world.remove("/apis/velero.io/v1/namespaces/lifeboat/backupstoragelocations/default");
    assert_eq!(server.settle("b").await, "Failed");
}
