//! Repositories are created, shown and checked, and maintained by movers.

use lifeboat_plan::transfer::repository_notes::{EMPTIED, MAINTAIN_SINCE};
use serde_json::json;

use super::*;
use crate::repositories::{ensure, forget};
use crate::testing::Cluster;
use crate::testing::repositories::{PASSWORD, key, prepare, snapshot, snapshots};

const NAME: &str = "shop-default-restic";

async fn look(cluster: &Cluster) -> Value {
    let object = cluster.get("backuprepositories", NAME).unwrap();
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let resource = objects::resource_of::<BackupRepository>();
    let maintenances = LongWork::new(&cluster.context.core.metrics, MAINTENANCE);
    let state = Arc::new(State { resource, maintenances });
    // This cluster knows no Jobs: a maintenance ends with an error.
    let _ = reconcile(Arc::new(object), cluster.context.clone(), state.clone()).await;
    state.maintenances.ended().await;
    cluster.get("backuprepositories", NAME).unwrap()
}

#[tokio::test]
async fn a_repository_is_made_once_and_shown() {
    let cluster = Cluster::new().await;
    prepare(&cluster, PASSWORD);
    let access = ensure(&cluster.context, &key("shop")).await.unwrap();
    cluster.shared().remove("backuprepositories", NAME);
    ensure(&cluster.context, &key("shop")).await.unwrap();
    look(&cluster).await;
    assert_eq!(cluster.names("backuprepositories"), [NAME]);
    let object = cluster.get("backuprepositories", NAME).unwrap();
    assert_eq!(object["status"]["phase"], "Ready");
    assert_eq!(object["spec"]["resticIdentifier"], access.identifier);
    assert!(cluster.store().exists("restic/shop/config").await.unwrap());
}

#[tokio::test]
async fn another_password_makes_it_not_ready_and_the_right_one_ready_again() {
    let cluster = Cluster::new().await;
    prepare(&cluster, PASSWORD);
    ensure(&cluster.context, &key("shop")).await.unwrap();
    prepare(&cluster, "another");
    let object = look(&cluster).await;
    assert_eq!(object["status"]["phase"], "NotReady");
    assert!(object["status"]["message"].as_str().unwrap().contains("password"), "{object}");
    prepare(&cluster, PASSWORD);
    let object = look(&cluster).await;
    assert_eq!((&object["status"]["phase"], &object["status"]["message"]), (&json!("Ready"), &Value::Null));
}

#[tokio::test]
async fn a_repository_that_vanished_is_not_made_anew_in_silence() {
    let cluster = Cluster::new().await;
    prepare(&cluster, PASSWORD);
    ensure(&cluster.context, &key("shop")).await.unwrap();
    cluster.store().delete("restic/shop/config").await.unwrap();
    let object = look(&cluster).await;
    assert_eq!(object["status"]["phase"], "NotReady");
    assert!(!cluster.store().exists("restic/shop/config").await.unwrap());
}

#[tokio::test]
async fn a_maintenance_is_written_down_before_it_begins() {
    let cluster = Cluster::new().await;
    prepare(&cluster, PASSWORD);
    ensure(&cluster.context, &key("shop")).await.unwrap();
    let asked = json!({"metadata": {"annotations": {MAINTAIN_SINCE: "2026-11-16T12:00:00Z"}}});
    cluster.change("backuprepositories", NAME, &asked);
    let object = look(&cluster).await;
    let written = object["metadata"]["annotations"]["lifeboat.io/maintenance"].is_string();
    let ended = object["status"]["recentMaintenance"][0]["result"] == "Failed";
    assert!(written || ended, "{object}");
}

#[tokio::test]
async fn that_the_last_snapshot_was_forgotten_is_known_until_one_is_to_come() {
    let cluster = Cluster::new().await;
    prepare(&cluster, PASSWORD);
    let (first, last) = (snapshot(&cluster, "shop", "t-1").await, snapshot(&cluster, "shop", "t-2").await);
    let emptied = || {
        let object = cluster.get("backuprepositories", NAME).unwrap();
        object["metadata"]["annotations"][EMPTIED].is_string()
    };
    forget(&cluster.context, &key("shop"), &[first]).await.unwrap();
    assert!(!emptied());
    forget(&cluster.context, &key("shop"), &[last]).await.unwrap();
    assert!(emptied());
    // A listing that finds nothing says nothing.
    forget(&cluster.context, &key("shop"), &["0123456789".to_owned()]).await.unwrap();
    ensure(&cluster.context, &key("shop")).await.unwrap();
    assert!(!emptied());
}

#[tokio::test]
async fn what_movers_stored_after_they_were_given_up_is_forgotten_where_nobody_wants_it() {
    let cluster = Cluster::new().await;
    prepare(&cluster, PASSWORD);
    let mut stored = Vec::new();
    for task in ["failed-1", "completed-1", "open-1", "gone-1"] {
        stored.push(snapshot(&cluster, "shop", task).await);
    }
    for (uid, phase) in [("failed", "Failed"), ("completed", "Completed"), ("open", "InProgress")] {
        let object = json!({"apiVersion": "velero.io/v1", "kind": "PodVolumeBackup",
            "metadata": {"name": uid, "namespace": "lifeboat", "uid": uid}, "status": {"phase": phase}});
        cluster.put("podvolumebackups", &object);
    }
    let until = "2100-01-01T00:00:00Z";
    let all = json!({"given-up.lifeboat.io/failed-1": until, "given-up.lifeboat.io/completed-1": until,
        "given-up.lifeboat.io/open-1": until, "given-up.lifeboat.io/gone-1": until});
    cluster.change("backuprepositories", NAME, &json!({"metadata": {"annotations": all}}));
    let object = look(&cluster).await;
    let left = snapshots(&cluster, "shop").await;
    let left: Vec<bool> = stored.iter().map(|id| left.contains(id)).collect();
    assert_eq!(left, [false, true, true, true]);
    let noted =
        |task: &str| object["metadata"]["annotations"][format!("given-up.lifeboat.io/{task}")].is_string();
    assert!(noted("failed-1") && noted("open-1") && noted("gone-1"), "more may come: {object}");
    assert!(!noted("completed-1"), "it is the copy: {object}");
}

#[tokio::test]
async fn a_maintenance_that_finds_snapshots_does_not_believe_that_there_are_none() {
    let cluster = Cluster::new().await;
    prepare(&cluster, PASSWORD);
    snapshot(&cluster, "shop", "t-1").await;
    let asked = json!({EMPTIED: "2026-11-16T11:00:00Z", MAINTAIN_SINCE: "2026-11-16T12:00:00Z"});
    cluster.change("backuprepositories", NAME, &json!({"metadata": {"annotations": asked}}));
    let object = look(&cluster).await;
    assert!(object["metadata"]["annotations"][EMPTIED].is_null(), "{object}");
}
