//! Repositories are made, shown and judged; movers are told to maintain them.

use lifeboat_plan::backup_repository::MAINTAIN_SINCE;
use serde_json::json;

use super::*;
use crate::repositories::ensure;
use crate::testing::Cluster;
use crate::testing::repositories::{PASSWORD, prepare};

const NAME: &str = "shop-default-restic";

async fn look(cluster: &Cluster) -> Value {
    let object = cluster.get("backuprepositories", NAME).unwrap();
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let state = Arc::new(State { resource: objects::resource_of::<BackupRepository>() });
    // This cluster knows no Jobs: a maintenance ends with an error.
    let _ = reconcile(Arc::new(object), cluster.context.clone(), state).await;
    cluster.get("backuprepositories", NAME).unwrap()
}

#[tokio::test]
async fn a_repository_is_made_once_and_shown() {
    let cluster = Cluster::new().await;
    prepare(&cluster, PASSWORD);
    let access = ensure(&cluster.context, "default", "shop").await.unwrap();
    cluster.shared().remove("backuprepositories", NAME);
    ensure(&cluster.context, "default", "shop").await.unwrap();
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
    ensure(&cluster.context, "default", "shop").await.unwrap();
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
    ensure(&cluster.context, "default", "shop").await.unwrap();
    cluster.store().delete("restic/shop/config").await.unwrap();
    let object = look(&cluster).await;
    assert_eq!(object["status"]["phase"], "NotReady");
    assert!(!cluster.store().exists("restic/shop/config").await.unwrap());
}

#[tokio::test]
async fn a_maintenance_is_written_down_before_it_begins() {
    let cluster = Cluster::new().await;
    prepare(&cluster, PASSWORD);
    ensure(&cluster.context, "default", "shop").await.unwrap();
    let asked = json!({"metadata": {"annotations": {MAINTAIN_SINCE: "2026-11-16T12:00:00Z"}}});
    cluster.change("backuprepositories", NAME, &asked);
    let object = look(&cluster).await;
    let written = object["metadata"]["annotations"]["lifeboat.io/maintenance"].is_string();
    let ended = object["status"]["recentMaintenance"][0]["result"] == "Failed";
    assert!(written || ended, "{object}");
}
