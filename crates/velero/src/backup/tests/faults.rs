//! Backups with faults: cancelled, deleted, taken over, with storage or an API server that fails.

use super::*;

const JOURNAL: &str = "/api/v1/namespaces/lifeboat/configmaps/lifeboat-journal-uid-b";

/// A journal with an open hook of pod `db-0`.
fn put_journal(server: &Server, pod_uid: &str) {
    let hook = json!({"name": "h", "container": "main", "command": ["thaw"], "fail": false,
        "timeout": {"secs": 30, "nanos": 0}});
    let entry = json!({"namespace": "shop", "name": "db-0", "uid": pod_uid, "post": [hook]});
    let metadata = json!({"name": "lifeboat-journal-uid-b", "labels": {"lifeboat.io/journal": "backup"}});
    let data = json!({format!("hook.{pod_uid}"): entry.to_string()});
    server.world.put(JOURNAL, json!({"metadata": metadata, "data": data}));
}

fn interrupted(annotations: &Value) -> Value {
    let mut all = json!({"lifeboat.io/attempt": "1"});
    for (key, value) in annotations.as_object().into_iter().flatten() {
        all[key] = value.clone();
    }
    json!({"status": {"phase": "InProgress", "startTimestamp": "2026-01-01T00:00:00Z"},
        "metadata": {"annotations": all}})
}

fn reason(server: &Server) -> String {
    server.get("b")["status"]["failureReason"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_journal_can_be_found_and_outlives_its_backup() {
    let server = Server::new().await;
    server.add("b", json!({}), &json!({}));
    let seen = Arc::new(Mutex::new(Value::Null));
    let kept = seen.clone();
    server.world.on_command(move |world, command| {
        if command == "pre db-0" {
            *kept.lock().unwrap() = world.get(JOURNAL).unwrap();
        }
    });
    assert_eq!(server.settle("b").await, "Completed");
    let journal = seen.lock().unwrap().clone();
    assert!(journal["metadata"]["labels"]["lifeboat.io/journal"].is_string(), "{journal}");
    assert!(journal["metadata"]["ownerReferences"].is_null(), "{journal}");
}

#[tokio::test]
async fn a_pod_that_took_the_name_of_another_gets_no_hook_of_it() {
    let server = Server::new().await;
    server.add(
        "b",
        json!({"includedNamespaces": ["shop"], "storageLocation": "default"}),
        &interrupted(&json!({})),
    );
    put_journal(&server, "uid-of-old");
    assert_eq!(server.settle("b").await, "Completed");
    assert_eq!(server.world.ran(), ["pre db-0", "post db-0"]);
    assert_eq!(server.world.paths("lifeboat-journal"), Vec::<String>::new());
}

#[tokio::test]
async fn a_backup_without_its_archive_never_becomes_one() {
    let server = Server::new().await;
    server.add("b", json!({"storageLocation": "default"}), &json!({"status": {"phase": "Finalizing"}}));
    assert_eq!(server.settle("b").await, "Failed");
    assert!(reason(&server).contains("backups/b/b.tar.gz"), "{}", reason(&server));
    assert_eq!(ObjectStore::keys(&server.store(), "").await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn an_archive_of_another_size_is_not_this_backups() {
    let server = Server::new().await;
    let rest = json!({"status": {"phase": "Finalizing"},
        "metadata": {"annotations": {"lifeboat.io/attempt": "1", "lifeboat.io/archive-bytes": "7"}}});
    server.add("b", json!({"storageLocation": "default"}), &rest);
    ObjectStore::put(&server.store(), "backups/b/b.tar.gz", "x".into()).await.unwrap();
    assert_eq!(server.settle("b").await, "Failed");
    assert!(!ObjectStore::exists(&server.store(), "backups/b/velero-backup.json").await.unwrap());
}

#[rstest]
#[case::forbidden(403, "Forbidden")]
#[case::not_valid(422, "Invalid")]
#[tokio::test]
async fn a_backup_whose_start_is_refused_fails_and_lets_others_run(#[case] code: u16, #[case] message: &str) {
    let server = Server::new().await;
    server.add("b", json!({}), &json!({"status": {"phase": "ReadyToStart"}}));
    server.world.refuse_change(&format!("{BACKUPS}/b"), "spec", code);
    assert_eq!(server.settle("b").await, "Failed");
    assert!(reason(&server).ends_with(message), "{}", reason(&server));
}

#[tokio::test]
async fn a_backup_that_nothing_can_be_written_into_holds_no_other_up() {
    let server = Server::new().await;
    server.add("a", json!({}), &json!({"status": {"phase": "ReadyToStart"}}));
    server.world.refuse_change(&format!("{BACKUPS}/a"), "status", 422);
    server.add("b", json!({}), &json!({}));
    let _ = server.reconcile(server.get("a")).await;
    assert_eq!(server.settle("b").await, "Completed");
}

#[tokio::test]
async fn a_second_attempt_that_is_refused_cleans_up_and_leaves_a_log() {
    let server = Server::new().await;
    let spec = json!({"storageLocation": "default", "resourcePolicy": {"kind": "configmap", "name": "gone"}});
    server.add("b", spec, &interrupted(&json!({})));
    put_journal(&server, "uid-db-0");
    assert_eq!(server.settle("b").await, "Failed");
    assert_eq!(server.world.ran(), ["thaw db-0"]);
    assert_eq!(server.world.paths("lifeboat-journal"), Vec::<String>::new());
    assert!(ObjectStore::exists(&server.store(), "backups/b/b-logs.gz").await.unwrap());
}

#[tokio::test]
async fn a_second_attempt_waits_for_a_location_that_was_not_looked_at_yet() {
    let server = Server::new().await;
    server.add("b", json!({"storageLocation": "default"}), &interrupted(&json!({})));
    let location = "/apis/velero.io/v1/namespaces/lifeboat/backupstoragelocations/default";
    server.world.change(location, &json!({"status": {"phase": "Unavailable"}}));
    assert_eq!(server.settle("b").await, "InProgress");
    server.world.change(location, &json!({"status": {"phase": "Available"}}));
    assert_eq!(server.settle("b").await, "Completed");
}

#[rstest]
#[case::gone(None)]
#[case::goes(Some(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "InProgress"}})))]
#[case::ended(Some(json!({"status": {"phase": "Failed"}})))]
#[tokio::test]
async fn hooks_that_a_backup_left_open_end_without_it(#[case] backup: Option<Value>) {
    let server = Server::new().await;
    if let Some(rest) = backup {
        server.add("b", json!({}), &rest);
    }
    put_journal(&server, "uid-db-0");
    let found = left_behind::find(&server.context, &server.state).await.unwrap();
    assert_eq!(found.iter().map(|left| left.uid.as_str()).collect::<Vec<_>>(), ["uid-b"]);
    left_behind::end(&server.context, &found).await;
    assert_eq!(server.world.ran(), ["thaw db-0"]);
    assert_eq!(server.world.paths("lifeboat-journal"), Vec::<String>::new());
}

#[tokio::test]
async fn the_journal_of_a_backup_that_goes_on_is_left_to_it() {
    let server = Server::new().await;
    server.add("b", json!({}), &interrupted(&json!({})));
    put_journal(&server, "uid-db-0");
    assert_eq!(left_behind::find(&server.context, &server.state).await.unwrap(), []);
}

#[rstest]
#[case::its_own("1", Vec::<String>::new())]
#[case::anothers("7", vec!["backups/b/b.tar.gz".to_owned()])]
#[tokio::test]
async fn a_backup_that_is_deleted_before_its_end_takes_its_files_along(
    #[case] bytes: &str,
    #[case] stays: Vec<String>,
) {
    let server = Server::new().await;
    let rest = json!({"status": {"phase": "Finalizing"}, "metadata": {"annotations": {"lifeboat.io/archive-bytes": bytes}}});
    server.add("b", json!({"storageLocation": "default"}), &rest);
    ObjectStore::put(&server.store(), "backups/b/b.tar.gz", "x".into()).await.unwrap();
    deleted::follow(&server.state, &serde_json::from_value(server.get("b")).unwrap());
    deleted::undo_deleted(&server.context, &server.state).await.unwrap();
    assert_eq!(ObjectStore::keys(&server.store(), "").await.unwrap(), ["backups/b/b.tar.gz"]);
    server.world.remove(&format!("{BACKUPS}/b"));
    deleted::undo_deleted(&server.context, &server.state).await.unwrap();
    assert_eq!(ObjectStore::keys(&server.store(), "").await.unwrap(), stays);
}

#[tokio::test]
async fn a_backup_that_waits_in_the_queue_is_cancelled_at_once() {
    let server = Server::new().await;
    server.add("a", json!({}), &json!({"status": {"phase": "InProgress"}}));
    let rest =
        json!({"status": {"phase": "Queued"}, "metadata": {"annotations": {"lifeboat.io/cancel": ""}}});
    server.add("b", json!({}), &rest);
    assert_eq!(server.settle("b").await, "Failed");
    assert!(reason(&server).contains("cancelled"), "{}", reason(&server));
}
