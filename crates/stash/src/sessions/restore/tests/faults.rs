//! Bad input, things that are missing, and servers that are killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lifeboat_cluster::testing::failure;
use lifeboat_transfer::attempts::testing::fails;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::super::{Advance, Stopped};
use super::cluster::{Cluster, SESSIONS, member};
use crate::settings::StashSettings;
use crate::testing::condition;

#[tokio::test]
async fn what_is_missing_is_waited_for_and_named() {
    let cluster = Cluster::new().await;
    cluster.snapshot("app", "/data").await;
    cluster.restore_session("back", &json!({"target": member("Deployment", "web", "app")}), &json!({}));
    let coming = async {
        loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let back = cluster.world.server.get(&format!("{SESSIONS}/back")).unwrap();
            let (status, message) = condition(&back, "RestoreTargetFound");
            if status == "False" {
                assert!(message.contains("waits for Deployment shop/web"), "{message}");
                assert_eq!(back["status"]["phase"], "Pending");
                cluster.deployment("web", 1);
                return;
            }
        }
    };
    let (back, ()) = tokio::join!(cluster.ended("back"), coming);
    assert_eq!(back["status"]["phase"], "Succeeded", "{back}");
}

#[tokio::test]
async fn the_wait_ends() {
    let settings = StashSettings { restore_wait: Duration::ZERO, ..StashSettings::default() };
    let cluster = Cluster::with(settings).await;
    cluster.restore_session("back", &json!({"target": member("Deployment", "web", "app")}), &json!({}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Failed");
    let (_, message) = condition(&back, "RestoreExecutorEnsured");
    assert!(message.contains("Deployment shop/web"), "{message}");
}

/// The pod of a node that is gone is never seen to end.
#[tokio::test]
async fn a_pod_that_does_not_end_is_not_waited_for_without_end() {
    let settings = StashSettings { restore_wait: Duration::ZERO, ..StashSettings::default() };
    let cluster = Cluster::with(settings).await;
    cluster.claim("data");
    cluster.snapshot("app", "/data").await;
    let volume = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data"}});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"volumes": [volume]}, "status": {"phase": "Running"},
    });
    cluster.world.server.put("/api/v1/namespaces/shop/pods/lost", pod);
    let spec = json!({"target": member("PersistentVolumeClaim", "data", "app")});
    cluster.restore_session("back", &spec, &json!({}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Failed", "{back}");
    let (_, message) = condition(&back, "RestoreExecutorEnsured");
    assert!(
        message.contains("pod lost (claim data)") && message.contains("delete what is left"),
        "{message}"
    );
}

#[tokio::test]
async fn a_missing_repository_keeps_a_restore_pending() {
    let cluster = Cluster::new().await;
    cluster.deployment("web", 1);
    cluster.restore_session("back", &json!({"target": member("Deployment", "web", "app")}), &json!({}));
    let path = format!("{SESSIONS}/back");
    cluster.world.server.change(&path, &json!({"spec": {"repository": {"name": "none"}}}));
    let advanced = cluster.advance(&path, &CancellationToken::new()).await.unwrap();
    assert_eq!(advanced, Advance::Waits);
    let back = cluster.world.server.get(&path).unwrap();
    assert_eq!(back["status"]["phase"], "Pending");
    assert!(condition(&back, "RepositoryFound").1.contains("shop/none"), "{back}");
}

#[tokio::test]
async fn a_spec_that_cannot_work_is_invalid() {
    let cluster = Cluster::new().await;
    let mut target = member("Deployment", "web", "app");
    target["rules"] = json!([{"targetHosts": ["a"]}, {"targetHosts": ["a"]}]);
    cluster.restore_session("back", &json!({"target": target}), &json!({}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Invalid", "{back}");
    assert!(condition(&back, "ValidationPassed").1.contains("two rules list host"), "{back}");
}

#[tokio::test]
async fn a_path_that_was_never_stored_fails_and_lists_what_exists() {
    let cluster = Cluster::new().await;
    cluster.deployment("web", 1);
    cluster.snapshot("app", "/data").await;
    let mut target = member("Deployment", "web", "app");
    target["rules"] = json!([{"paths": ["/other"]}]);
    cluster.restore_session("back", &json!({"target": target}), &json!({}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Failed");
    let (_, message) = condition(&back, "RestoreExecutorEnsured");
    assert!(message.contains("below no mount") && message.contains("host app: /data"), "{message}");
    assert_eq!(cluster.object("web")["spec"]["replicas"], 1);
}

#[tokio::test]
async fn a_restore_waits_for_a_running_backup_of_its_target() {
    let cluster = Cluster::new().await;
    cluster.deployment("web", 1);
    cluster.snapshot("app", "/data").await;
    let path = "/apis/stash.appscode.com/v1beta1/namespaces/shop/backupsessions/b";
    let target = json!({
        "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "totalHosts": 1, "phase": "Running",
        "stats": [{"hostname": "app", "phase": "Running"}],
    });
    cluster.world.server.put(
        path,
        json!({
            "apiVersion": "stash.appscode.com/v1beta1", "kind": "BackupSession",
            "spec": {"invoker": {"kind": "BackupConfiguration", "name": "c"}},
            "status": {"phase": "Running", "targets": [target]},
        }),
    );
    cluster.restore_session("back", &json!({"target": member("Deployment", "web", "app")}), &json!({}));
    let ending = async {
        loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let back = cluster.world.server.get(&format!("{SESSIONS}/back")).unwrap();
            if condition(&back, "TargetInUse").0 == "True" {
                assert!(condition(&back, "TargetInUse").1.contains("shop/b"), "{back}");
                assert_eq!(cluster.works().len(), 0);
                cluster.world.server.remove(path);
                return;
            }
        }
    };
    let (back, ()) = tokio::join!(cluster.ended("back"), ending);
    assert_eq!(back["status"]["phase"], "Succeeded", "{back}");
}

#[tokio::test]
async fn a_restore_that_is_deleted_before_it_writes_leaves_the_workload_as_before() {
    let cluster = Cluster::new().await;
    cluster.deployment("web", 2);
    cluster.snapshot("app", "/data").await;
    cluster.restore_session("back", &json!({"target": member("Deployment", "web", "app")}), &json!({}));
    let cancel = CancellationToken::new();
    let deleted = cancel.clone();
    // While the safety copy runs.
    cluster.effects.meanwhile(move || deleted.cancel());
    cluster.effects.will(lifeboat_transfer::attempts::testing::killed_when_cancelled());
    cluster.advance(&format!("{SESSIONS}/back"), &cancel).await.unwrap();
    let back = cluster.world.server.get(&format!("{SESSIONS}/back")).unwrap();
    assert_eq!(back["status"]["phase"], "Failed", "{back}");
    assert_eq!(back["status"]["standstill"]["step"], "Started", "{back}");
    assert_eq!(cluster.object("web")["spec"]["replicas"], 2);
    assert!(back["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty), "{back}");
}

/// The server is killed at every write: the next one comes to the same end, and movers never write beside running pods.
#[tokio::test]
async fn a_server_that_is_killed_at_any_write_is_followed_by_one_that_comes_to_the_same_end() {
    let cluster = Cluster::new().await;
    cluster.snapshot("app", "/data").await;
    let (count, fatal) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(usize::MAX)));
    let (counted, kills) = (count.clone(), fatal.clone());
    cluster.world.server.answer(move |_, asked| {
        let is_write =
            asked.method != "GET" && !asked.path.contains("/events") && !asked.query.contains("dryRun");
        if is_write && counted.fetch_add(1, Ordering::SeqCst) == kills.load(Ordering::SeqCst) {
            return Some(failure(500, "killed"));
        }
        None
    });
    let mut writes = 0;
    loop {
        let name = format!("run{writes}");
        cluster.deployment(&name, 2);
        let spec = json!({"target": member("Deployment", &name, "app")});
        cluster.restore_session(&name, &spec, &json!({}));
        count.store(0, Ordering::SeqCst);
        fatal.store(writes, Ordering::SeqCst);
        let path = format!("{SESSIONS}/{name}");
        let mut tries = 0;
        loop {
            match cluster.advance(&path, &CancellationToken::new()).await {
                Ok(Advance::Ended) => break,
                Err(Stopped::Api(_)) | Ok(Advance::Waits) if tries < 5 => tries += 1,
                other => panic!("killed at write {writes}: {other:?}"),
            }
        }
        let back = cluster.world.server.get(&path).unwrap();
        assert_eq!(back["status"]["phase"], "Succeeded", "killed at write {writes}: {back}");
        assert_eq!(cluster.object(&name)["spec"]["replicas"], 2, "killed at write {writes}");
        assert!(back["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty), "{back}");
        if count.load(Ordering::SeqCst) <= writes {
            break;
        }
        writes += 1;
    }
    assert!(writes > 10, "{writes} writes");
}

/// After a restore failed, the server may be killed at every write as well.
#[tokio::test]
async fn a_failed_restore_keeps_the_workload_down_wherever_the_server_is_killed() {
    let cluster = Cluster::new().await;
    cluster.deployment("web", 2);
    cluster.snapshot("app", "/data").await;
    cluster.restore_session("back", &json!({"target": member("Deployment", "web", "app")}), &json!({}));
    cluster.copies_then(fails("no space left on device"));
    let web = cluster.path_of("web");
    let first = AtomicUsize::new(0);
    cluster.world.server.answer(move |_, asked| {
        // The annotation of a workload that stays down is the second write to it.
        let is_write = asked.method == "PATCH" && asked.path == web;
        (is_write && first.fetch_add(1, Ordering::SeqCst) == 1).then(|| failure(500, "killed"))
    });
    let path = format!("{SESSIONS}/back");
    let first = cluster.advance(&path, &CancellationToken::new()).await;
    assert!(matches!(first, Err(Stopped::Api(_))), "{first:?}");
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["standstill"]["step"], "HeldDown", "{back}");
    assert_eq!(cluster.object("web")["spec"]["replicas"], 0);
}
