//! Copies of pod volumes are forgotten before the files go; what cannot be forgotten keeps the backup.

use super::*;
use crate::testing::repositories::{PASSWORD, prepare, snapshot, snapshots, tagged};

fn copy(namespace: &str, snapshot: &str, uploader: &str) -> Value {
    json!({"spec": {"volume": "data", "uploaderType": uploader, "pod": {"namespace": namespace, "name": "db-0"}},
        "status": {"snapshotID": snapshot}})
}

/// A snapshot of the backup, with the tags that Velero and Lifeboat write.
async fn own(cluster: &Cluster, namespace: &str) -> String {
    tagged(cluster, namespace, &["backup=b", "backup-uid=uid-b", "pod=db-0"]).await
}

async fn with_copies(cluster: &Cluster, copies: &Value) {
    let key = BackupFiles::new("b").unwrap().volume_copies();
    cluster.store().put(&key, documents::encode(copies).unwrap()).await.unwrap();
}

#[tokio::test]
async fn the_copies_of_the_backup_go_and_no_others() {
    let cluster = cluster("Completed").await;
    prepare(&cluster, PASSWORD);
    let (mine, other) = (own(&cluster, "shop").await, snapshot(&cluster, "shop", "2").await);
    let elsewhere = own(&cluster, "blog").await;
    with_copies(&cluster, &json!([copy("shop", &mine, "restic"), copy("blog", &elsewhere[..8], "")])).await;
    assert_eq!(request(&cluster, "b", None).await, None);
    assert_eq!(snapshots(&cluster, "shop").await, [other]);
    assert_eq!(snapshots(&cluster, "blog").await, Vec::<String>::new());
}

#[tokio::test]
async fn copies_that_are_gone_already_are_no_problem() {
    let cluster = cluster("Completed").await;
    prepare(&cluster, PASSWORD);
    snapshot(&cluster, "shop", "1").await;
    let gone = "ab".repeat(32);
    with_copies(&cluster, &json!([copy("shop", &gone, "restic"), copy("never-made", &gone, "restic")])).await;
    assert_eq!(request(&cluster, "b", None).await, None);
}

#[tokio::test]
async fn with_the_wrong_password_the_backup_stays() {
    let cluster = cluster("Completed").await;
    prepare(&cluster, PASSWORD);
    let mine = own(&cluster, "shop").await;
    with_copies(&cluster, &json!([copy("shop", &mine, "restic")])).await;
    prepare(&cluster, "another");
    let said = errors(request(&cluster, "b", None).await);
    assert!(said.contains("namespace 'shop'") && said.contains("password"), "{said}");
    assert!(cluster.store().exists("backups/b/velero-backup.json").await.unwrap());
    prepare(&cluster, PASSWORD);
    assert_eq!(snapshots(&cluster, "shop").await, [mine]);
}
