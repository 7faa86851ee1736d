//! Repositories are made, shown and judged; movers are told to maintain them.

use lifeboat_plan::backup_repository::{EMPTIED, MAINTAIN_SINCE};
use serde_json::json;

use super::*;
use crate::repositories::{ensure, forget};
use crate::testing::Cluster;
use crate::testing::repositories::{PASSWORD, prepare, snapshot};

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

#[tokio::test]
async fn that_the_last_snapshot_was_forgotten_is_known_until_one_is_to_come() {
    let cluster = Cluster::new().await;
    prepare(&cluster, PASSWORD);
    let (first, last) = (snapshot(&cluster, "shop", "t-1").await, snapshot(&cluster, "shop", "t-2").await);
    let emptied = || {
        let object = cluster.get("backuprepositories", NAME).unwrap();
        object["metadata"]["annotations"][EMPTIED].is_string()
    };
    forget(&cluster.context, "default", "shop", &[first]).await.unwrap();
    assert!(!emptied());
    forget(&cluster.context, "default", "shop", &[last]).await.unwrap();
    assert!(emptied());
    // A listing that finds nothing says nothing.
    forget(&cluster.context, "default", "shop", &["0123456789".to_owned()]).await.unwrap();
    ensure(&cluster.context, "default", "shop").await.unwrap();
    assert!(!emptied());
}
