//! Backups through their phases, on a cluster in memory with a location in a directory.

mod csi;
mod csi_groups;
mod faults;
mod leftovers;
mod operations;
mod own;
mod snapshots;

use std::sync::Arc;

use lifeboat_archive::ObjectStore;
use lifeboat_store::Store;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::backup::world::{World, archived};
use crate::testing::context;

const BACKUPS: &str = "/apis/velero.io/v1/namespaces/lifeboat/backups";

struct Server {
    world: World,
    context: Context,
    state: Arc<State>,
    controller: Arc<Controller>,
    directory: tempfile::TempDir,
}

impl Server {
    async fn new() -> Self {
        let world = World::default();
        world.namespace("shop").namespace("lifeboat");
        world.add("configmaps", "shop", "settings", json!({}));
        world.pod("shop", "db-0", &[], true);
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("bucket")).unwrap();
        world.put(
            "/apis/velero.io/v1/namespaces/lifeboat/backupstoragelocations/default",
            json!({"apiVersion": "velero.io/v1", "kind": "BackupStorageLocation",
                "metadata": {"name": "default", "namespace": "lifeboat"},
                "spec": {"provider": "lifeboat.io/local", "default": true,
                    "objectStorage": {"bucket": "bucket"}, "config": {"path": directory.path().to_str().unwrap()}},
                "status": {"phase": "Available"}}),
        );
        let client = world.client().await;
        let mut context = context(client);
        context.commands = Arc::new(world.clone());
        let state = Arc::new(State::new(CancellationToken::new()));
        let controller = Arc::new(Controller::new(&context, state.clone()));
        Self { world, context, state, controller, directory }
    }

    #[allow(clippy::needless_pass_by_value)] // tests write `json!` in place
    fn add(&self, name: &str, spec: Value, rest: &Value) {
        let mut object = json!({"apiVersion": "velero.io/v1", "kind": "Backup", "spec": spec,
            "metadata": {"name": name, "namespace": "lifeboat", "uid": format!("uid-{name}")}});
        for key in ["status", "metadata"] {
            for (field, value) in rest[key].as_object().into_iter().flatten() {
                object[key][field] = value.clone();
            }
        }
        self.world.put(&format!("{BACKUPS}/{name}"), object);
    }

    fn get(&self, name: &str) -> Value {
        self.world.get(&format!("{BACKUPS}/{name}")).unwrap_or_default()
    }

    fn phase(&self, name: &str) -> String {
        self.get(name)["status"]["phase"].as_str().unwrap_or_default().to_owned()
    }

    fn store(&self) -> Store {
        Store::local(self.directory.path().join("bucket")).unwrap()
    }

    /// Reconciles, and waits for the end of the pass that this starts.
    async fn reconcile(&self, object: Value) -> Result<Action, ApiError> {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let uid = object.uid().unwrap_or_default();
        let next =
            Box::pin(reconcile(Arc::new(object), self.context.clone(), self.controller.clone())).await?;
        self.controller.passes.ended().await;
        let passed = locked(&self.state.passed).remove(uid.as_str());
        passed.unwrap_or(Ok(next))
    }

    /// Reconciles until the phase stays.
    async fn settle(&self, name: &str) -> String {
        for _ in 0..10 {
            let before = self.phase(name);
            self.reconcile(self.get(name)).await.unwrap();
            if self.get(name).is_null() || self.phase(name) == before {
                break;
            }
        }
        self.phase(name)
    }
}

#[tokio::test]
async fn a_backup_goes_from_new_to_completed() {
    let server = Server::new().await;
    server.add("b", json!({"includedNamespaces": ["shop"], "ttl": "0s"}), &json!({}));
    assert_eq!(server.settle("b").await, "Completed");
    let object = server.get("b");
    assert_eq!(object["spec"]["ttl"], "720h0m0s");
    assert_eq!(object["spec"]["storageLocation"], "default");
    assert_eq!(object["metadata"]["labels"]["velero.io/storage-location"], "default");
    assert_eq!(object["metadata"]["annotations"]["velero.io/source-cluster-k8s-gitversion"], "v1.34.4");
    assert_eq!(object["status"]["progress"], json!({"totalItems": 3, "itemsBackedUp": 3}));
    assert_eq!(object["status"]["hookStatus"], json!({"hooksAttempted": 2}));
    assert!(object["status"]["completionTimestamp"].is_string());
    assert!(object["status"].get("errors").is_none());
    let store = server.store();
    let mut keys = ObjectStore::keys(&store, "backups/").await.unwrap();
    keys.sort();
    let expected = [
        "b-itemoperations.json.gz",
        "b-logs.gz",
        "b-podvolumebackups.json.gz",
        "b-resource-list.json.gz",
        "b-results.gz",
        "b-volumeinfo.json.gz",
        "b-volumesnapshots.json.gz",
        "b.tar.gz",
        "velero-backup.json",
    ];
    assert_eq!(keys, expected.map(|name| format!("backups/b/{name}")));
    let stored = ObjectStore::get(&store, "backups/b/velero-backup.json", 1 << 20).await.unwrap();
    let stored: Value = serde_json::from_slice(&stored).unwrap();
    assert_eq!(stored["kind"], "Backup");
    assert_eq!(stored["status"]["phase"], "Completed");
    assert_eq!(stored["status"]["completionTimestamp"], object["status"]["completionTimestamp"]);
    assert_eq!(archived(&store, "backups/b/b.tar.gz").await.len(), 3);
    assert_eq!(server.world.paths("lifeboat-journal"), Vec::<String>::new());
}

#[tokio::test]
async fn errors_make_it_partially_failed() {
    let server = Server::new().await;
    server.world.fail_commands_in("db-0");
    server.add("b", json!({}), &json!({}));
    assert_eq!(server.settle("b").await, "PartiallyFailed");
    assert_eq!(server.get("b")["status"]["errors"], 2);
}

#[rstest]
#[case::location(json!({"storageLocation": "gone"}), "gone")]
#[case::order(json!({"orderedResources": {"pod": "a", "pods": "b"}}), "two keys")]
#[case::policy(json!({"resourcePolicy": {"kind": "configmap", "name": "none"}}), "none")]
#[tokio::test]
async fn a_backup_that_cannot_run_says_why(#[case] spec: Value, #[case] named: &str) {
    let server = Server::new().await;
    server.add("b", spec, &json!({}));
    assert_eq!(server.settle("b").await, "FailedValidation");
    let problem = server.get("b")["status"]["validationErrors"][0].as_str().unwrap_or_default().to_owned();
    assert!(problem.contains(named), "{problem}");
    assert_eq!(ObjectStore::keys(&server.store(), "").await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_name_that_is_used_in_storage_fails_and_touches_nothing() {
    let server = Server::new().await;
    ObjectStore::put(&server.store(), "backups/b/velero-backup.json", "{}".into()).await.unwrap();
    server.add("b", json!({}), &json!({}));
    assert_eq!(server.settle("b").await, "Failed");
    let reason = server.get("b")["status"]["failureReason"].as_str().unwrap_or_default().to_owned();
    assert!(reason.contains("already exists in object storage"), "{reason}");
    let counted = server.context.core.metrics.render();
    let labels = "work=\"backup\",outcome=\"Failed\",category=\"already_exists\"";
    assert!(counted.contains(&format!("lifeboat_work_total{{{labels}}} 1")), "{counted}");
    assert_eq!(ObjectStore::keys(&server.store(), "").await.unwrap(), ["backups/b/velero-backup.json"]);
}

#[tokio::test]
async fn the_next_leader_ends_open_hooks_first_and_begins_the_pass_again() {
    let server = Server::new().await;
    let status = json!({"status": {"phase": "InProgress", "startTimestamp": "2026-01-01T00:00:00Z"},
        "metadata": {"annotations": {"lifeboat.io/attempt": "1"}}});
    server.add("b", json!({"includedNamespaces": ["shop"], "storageLocation": "default"}), &status);
    let hook = json!({"name": "h", "container": "main", "command": ["thaw"], "fail": false,
        "timeout": {"secs": 30, "nanos": 0}});
    let entry = json!({"namespace": "shop", "name": "db-0", "uid": "uid-db-0", "post": [hook]});
    server.world.put(
        "/api/v1/namespaces/lifeboat/configmaps/lifeboat-journal-uid-b",
        json!({"metadata": {"name": "lifeboat-journal-uid-b"}, "data": {"hook.uid-db-0": entry.to_string()}}),
    );
    assert_eq!(server.settle("b").await, "Completed");
    assert_eq!(server.world.ran(), ["thaw db-0", "pre db-0", "post db-0"]);
    let object = server.get("b");
    assert_eq!(object["metadata"]["annotations"]["lifeboat.io/attempt"], "2");
    assert_eq!(object["status"]["startTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(object["status"]["warnings"], 1, "the interrupted pod is listed");
    assert_eq!(server.world.paths("lifeboat-journal"), Vec::<String>::new());
}

#[tokio::test]
async fn a_backup_that_never_ends_its_pass_fails_at_last() {
    let server = Server::new().await;
    let status =
        json!({"status": {"phase": "InProgress"}, "metadata": {"annotations": {"lifeboat.io/attempt": "5"}}});
    server.add("b", json!({}), &status);
    assert_eq!(server.settle("b").await, "Failed");
}

#[tokio::test]
async fn a_finalizing_backup_of_a_former_leader_is_ended() {
    let server = Server::new().await;
    let status = json!({"status": {"phase": "FinalizingPartiallyFailed", "errors": 1}});
    server.add("b", json!({"storageLocation": "default"}), &status);
    ObjectStore::put(&server.store(), "backups/b/b.tar.gz", "x".into()).await.unwrap();
    assert_eq!(server.settle("b").await, "PartiallyFailed");
    let keys = ObjectStore::keys(&server.store(), "").await.unwrap();
    assert_eq!(keys, ["backups/b/b.tar.gz", "backups/b/velero-backup.json"]);
}

#[tokio::test]
async fn a_backup_that_is_cancelled_before_it_starts_fails() {
    let server = Server::new().await;
    server.add("b", json!({}), &json!({"metadata": {"annotations": {"lifeboat.io/cancel": ""}}}));
    assert_eq!(server.settle("b").await, "Failed");
    assert!(server.world.ran().is_empty());
}

#[tokio::test]
async fn an_attempt_that_was_overtaken_writes_nothing_more() {
    let server = Server::new().await;
    server.add("b", json!({}), &json!({}));
    server.world.on_command(|world, command| {
        if command == "pre db-0" {
            world.change(
                &format!("{BACKUPS}/b"),
                &json!({"metadata": {"annotations": {"lifeboat.io/attempt": "7"}}}),
            );
        }
    });
    for _ in 0..2 {
        server.reconcile(server.get("b")).await.unwrap();
    }
    assert_eq!(server.phase("b"), "InProgress");
    assert!(!ObjectStore::exists(&server.store(), "backups/b/velero-backup.json").await.unwrap());
}

#[tokio::test]
async fn backups_of_the_same_namespaces_wait_for_each_other() {
    let server = Server::new().await;
    server.add("a", json!({}), &json!({"status": {"phase": "InProgress"}}));
    server.add("b", json!({}), &json!({}));
    server.add("c", json!({}), &json!({}));
    queue::advance(&server.context, &server.state).await.unwrap();
    assert_eq!((server.phase("b").as_str(), server.phase("c").as_str()), ("Queued", "Queued"));
    assert_eq!(server.get("c")["status"]["queuePosition"], 2);
    server.world.change(&format!("{BACKUPS}/a"), &json!({"status": {"phase": "Completed"}}));
    queue::advance(&server.context, &server.state).await.unwrap();
    assert_eq!((server.phase("b").as_str(), server.phase("c").as_str()), ("ReadyToStart", "Queued"));
    assert_eq!(server.get("c")["status"]["queuePosition"], 1);
}

#[tokio::test]
async fn a_backup_that_is_cancelled_while_a_hook_hangs_ends_soon_and_says_why() {
    let server = Server::new().await;
    server.world.hang("pre db-0");
    server.add("b", json!({}), &json!({}));
    server.world.on_command(|world, command| {
        if command == "pre db-0" {
            let cancel = json!({"metadata": {"annotations": {"lifeboat.io/cancel": "true"}}});
            world.change(&format!("{BACKUPS}/b"), &cancel);
        }
    });
    let ended = tokio::time::timeout(Duration::from_secs(20), server.settle("b")).await;
    assert_eq!(ended.expect("it waits for the hook"), "Failed");
    let reason = server.get("b")["status"]["failureReason"].as_str().unwrap_or_default().to_owned();
    assert!(reason.contains("cancelled"), "{reason}");
    assert_eq!(server.world.ran(), ["pre db-0", "post db-0"]);
    assert_eq!(server.world.paths("lifeboat-journal"), Vec::<String>::new());
    assert!(!ObjectStore::exists(&server.store(), "backups/b/velero-backup.json").await.unwrap());
    assert!(ObjectStore::exists(&server.store(), "backups/b/b-logs.gz").await.unwrap());
}

#[tokio::test]
async fn a_pass_runs_once_beside_its_reconciles_and_ends_with_its_post_hooks_when_the_server_stops() {
    let server = Server::new().await;
    server.world.hang("pre db-0");
    server.add("b", json!({}), &json!({"status": {"phase": "ReadyToStart"}}));
    let begun = Arc::new(tokio::sync::Notify::new());
    let hooked = begun.clone();
    server.world.on_command(move |_, _| hooked.notify_one());
    for _ in 0..2 {
        let object: DynamicObject = serde_json::from_value(server.get("b")).unwrap();
        let next = Box::pin(reconcile(Arc::new(object), server.context.clone(), server.controller.clone()));
        assert_eq!(next.await.unwrap(), Action::requeue(PASS_LOOK));
        assert!(server.controller.passes.is_running("uid-b"));
    }
    begun.notified().await;
    server.state.shutdown.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(20), server.controller.passes.ended()).await;
    assert!(ended.is_ok(), "it waits for the hook");
    assert_eq!(server.phase("b"), "InProgress");
    assert_eq!(server.get("b")["metadata"]["annotations"]["lifeboat.io/attempt"], "1");
    assert_eq!(server.world.ran(), ["pre db-0", "post db-0"]);
}

#[tokio::test]
async fn a_backup_that_is_deleted_while_a_hook_hangs_ends_it_and_leaves_nothing() {
    let server = Server::new().await;
    server.world.hang("pre db-0");
    server.add("b", json!({}), &json!({}));
    server.world.on_command(|world, command| {
        if command == "pre db-0" {
            world.remove(&format!("{BACKUPS}/b"));
        }
    });
    let ended = tokio::time::timeout(Duration::from_secs(20), server.settle("b")).await;
    assert!(ended.is_ok(), "it waits for the hook");
    assert_eq!(server.world.ran(), ["pre db-0", "post db-0"]);
    assert_eq!(ObjectStore::keys(&server.store(), "").await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_bucket_that_vanishes_while_it_runs_fails_the_backup() {
    let server = Server::new().await;
    server.add("b", json!({}), &json!({}));
    let bucket = server.directory.path().join("bucket");
    server.world.on_command(move |_, _| {
        let _ = std::fs::remove_dir_all(&bucket);
    });
    assert_eq!(server.settle("b").await, "Failed");
    let reason = server.get("b")["status"]["failureReason"].as_str().unwrap_or_default().to_owned();
    assert!(reason.contains("cannot be written") || reason.contains("cannot write"), "{reason}");
    assert_eq!(server.world.ran(), ["pre db-0", "post db-0"]);
}
