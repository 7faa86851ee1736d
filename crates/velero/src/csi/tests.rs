//! The delete item action against a cluster of a few lines.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use lifeboat_api::velero::{Backup, BackupSpec};
use lifeboat_cluster::testing::{Asked, client, failure};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

/// What the cluster does with contents.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cluster {
    /// A controller takes them on, the driver deletes.
    Whole,
    /// The kind is not served.
    Without,
    Forbidden,
}

#[derive(Default)]
struct Seen {
    contents: BTreeMap<String, Value>,
    /// Made and deleted, in order.
    log: Vec<String>,
}

fn answer(seen: &Mutex<Seen>, cluster: Cluster, asked: &Asked) -> (u16, Value) {
    match cluster {
        Cluster::Without => return failure(404, "NotFound"),
        Cluster::Forbidden => return failure(403, "Forbidden"),
        Cluster::Whole => {}
    }
    let mut seen = seen.lock().unwrap();
    let name = asked.path.rsplit('/').next().unwrap_or_default().to_owned();
    match asked.method.as_str() {
        "POST" => {
            let mut made = asked.body.clone();
            assert!(
                made["metadata"]["finalizers"][0].is_string(),
                "it would go before its driver hears of it"
            );
            made["status"] = json!({"readyToUse": true});
            let name = made["metadata"]["name"].as_str().unwrap().to_owned();
            let (policy, handle) =
                (&made["spec"]["deletionPolicy"], &made["spec"]["source"]["snapshotHandle"]);
            let message = format!("make {} {}", policy.as_str().unwrap(), handle.as_str().unwrap());
            seen.log.push(message);
            seen.contents.insert(name, made.clone());
            (201, made)
        }
        "DELETE" => {
            let made = name.starts_with("lifeboat-delete-");
            seen.log.push(if made { "delete".to_owned() } else { format!("delete {name}") });
            seen.contents.remove(&name).map_or_else(|| failure(404, "NotFound"), |found| (200, found))
        }
        _ if name == "volumesnapshotcontents" => {
            let items: Vec<_> = seen.contents.values().collect();
            (200, json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}))
        }
        _ => seen.contents.get(&name).map_or_else(|| failure(404, "NotFound"), |found| (200, found.clone())),
    }
}

fn content(backup: &str) -> Value {
    json!({"metadata": {"name": "c", "labels": {"velero.io/backup-name": backup}},
        "spec": {"driver": "d", "deletionPolicy": "Retain"}, "status": {"snapshotHandle": "h"}})
}

async fn delete(cluster: Cluster, item: &Value) -> (Result<(), String>, Vec<String>) {
    delete_beside(cluster, item, &[]).await
}

/// The same in a cluster that has these, contents or VolumeSnapshots.
async fn delete_beside(cluster: Cluster, item: &Value, there: &[Value]) -> (Result<(), String>, Vec<String>) {
    let named = |object: &Value| (object["metadata"]["name"].as_str().unwrap().to_owned(), object.clone());
    let seen = Seen { contents: there.iter().map(named).collect(), log: Vec::new() };
    let seen = Arc::new(Mutex::new(seen));
    let kept = seen.clone();
    let client = client(move |asked| answer(&kept, cluster, &asked)).await;
    let backup = Backup::new("b", BackupSpec::default());
    let deleted = delete_actions(&client)[0].execute(item, &backup).await;
    let log = std::mem::take(&mut seen.lock().unwrap().log);
    (deleted.map_err(|error| error.to_string()), log)
}

#[tokio::test]
async fn a_snapshot_goes_by_a_content_that_is_made_to_be_deleted() {
    let (deleted, log) = delete(Cluster::Whole, &content("b")).await;
    assert_eq!((deleted, log), (Ok(()), vec!["make Delete h".to_owned(), "delete".to_owned()]));
}

#[tokio::test]
async fn contents_of_restores_go_where_their_volume_snapshot_is_gone() {
    let restored = |name: &str, snapshot: &str| {
        let labels = json!({"velero.io/backup-name": "b", "velero.io/restore-name": "r"});
        json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
            "metadata": {"name": name, "labels": labels},
            "spec": {"driver": "d", "deletionPolicy": "Retain", "source": {"snapshotHandle": "h"},
                "volumeSnapshotRef": {"namespace": "shop", "name": snapshot}}})
    };
    let snapshot = json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": {"namespace": "shop", "name": "used"}, "spec": {}});
    let there = [restored("idle", "gone"), restored("needed", "used"), snapshot];
    let (deleted, log) = delete_beside(Cluster::Whole, &content("b"), &there).await;
    assert_eq!(deleted, Ok(()));
    assert_eq!(log, ["delete idle", "make Delete h", "delete"]);
}

#[rstest]
#[case::of_another_backup(content("other"))]
#[case::never_taken(json!({"metadata": {"name": "c", "labels": {"velero.io/backup-name": "b"}}, "spec": {"driver": "d"}}))]
#[tokio::test]
async fn what_is_not_the_backups_or_was_never_made_is_left_alone(#[case] item: Value) {
    let (deleted, log) = delete(Cluster::Whole, &item).await;
    assert_eq!((deleted, log), (Ok(()), Vec::new()));
}

#[rstest]
#[case(Cluster::Without, "does not serve VolumeSnapshotContents")]
#[case(Cluster::Forbidden, "may not create VolumeSnapshotContents")]
#[tokio::test]
async fn a_snapshot_that_nobody_can_delete_keeps_its_backup(#[case] cluster: Cluster, #[case] message: &str) {
    let (deleted, _) = delete(cluster, &content("b")).await;
    let said = deleted.unwrap_err();
    assert!(said.contains("snapshot 'h' of driver d remains") && said.contains(message), "{said}");
}
