//! The delete item action against the API server of `lifeboat_control::testing`.

use std::sync::{Arc, Mutex};

use lifeboat_api::velero::{Backup, BackupSpec};
use lifeboat_control::testing::{ApiServer, Requests, When, Write, WriteKind};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

const GROUP: &str = "snapshot.storage.k8s.io";

/// What the cluster does with contents.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cluster {
    /// A controller takes them on, the driver deletes.
    Whole,
    /// The kind is not served.
    Without,
    Forbidden,
}

/// What the controller and the driver do with a content, and what they note.
fn take_on(server: &ApiServer, write: &Write, log: &Mutex<Vec<String>>) {
    let note = |message: String| log.lock().unwrap().push(message);
    let object = server.get(&write.path);
    if write.kind == WriteKind::Created {
        let made = object.unwrap();
        assert!(made["metadata"]["finalizers"][0].is_string(), "it would go before its driver hears of it");
        let (policy, handle) = (&made["spec"]["deletionPolicy"], &made["spec"]["source"]["snapshotHandle"]);
        note(format!("make {} {}", policy.as_str().unwrap(), handle.as_str().unwrap()));
        server.change(&write.path, &json!({"status": {"readyToUse": true}}));
        return;
    }
    if object.is_none_or(|object| object["metadata"]["deletionTimestamp"].is_string()) {
        let name = write.path.rsplit('/').next().unwrap_or_default();
        let made = name.starts_with("lifeboat-delete-");
        note(if made { "delete".to_owned() } else { format!("delete {name}") });
        server.remove(&write.path);
    }
}

fn content(backup: &str) -> Value {
    json!({"metadata": {"name": "c", "labels": {"velero.io/backup-name": backup}},
        "spec": {"driver": "d", "deletionPolicy": "Retain"}, "status": {"snapshotHandle": "h"}})
}

async fn delete(cluster: Cluster, item: &Value) -> (Result<(), String>, Vec<String>) {
    delete_beside(cluster, item, &[]).await
}

/// Deletes in a cluster that has these, contents or VolumeSnapshots.
async fn delete_beside(cluster: Cluster, item: &Value, there: &[Value]) -> (Result<(), String>, Vec<String>) {
    let server = ApiServer::default();
    for object in there {
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().unwrap();
        let path = match metadata["namespace"].as_str() {
            Some(namespace) => format!("/apis/{GROUP}/v1/namespaces/{namespace}/volumesnapshots/{name}"),
            None => format!("/apis/{GROUP}/v1/volumesnapshotcontents/{name}"),
        };
        server.put(&path, object.clone());
    }
    match cluster {
        Cluster::Whole => {}
        Cluster::Without => server.without(GROUP),
        Cluster::Forbidden => server.fail(Requests::any("*"), When::Always, 403),
    }
    let log = Arc::new(Mutex::new(Vec::new()));
    let noted = log.clone();
    server.on_write(move |server, write| take_on(server, write, &noted));
    let backup = Backup::new("b", BackupSpec::default());
    let deleted = delete_actions(&server.client().await)[0].execute(item, &backup).await;
    let log = std::mem::take(&mut *log.lock().unwrap());
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
