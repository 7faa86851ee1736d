//! Snapshots that a dead server, another installation or a Backup that is gone left in the cluster.

use super::*;

#[rstest]
#[case::of_one_that_failed(Some("Failed"), "Delete")]
#[case::of_one_that_ended(Some("Completed"), "Retain")]
#[tokio::test]
async fn what_a_dead_server_left_is_cleared_up(#[case] phase: Option<&str>, #[case] policy: &str) {
    let server = server(Driver::Ready, &["fast"]).await;
    let place = json!({"metadata": {"name": "s", "namespace": "shop", "labels": {OF_BACKUP: "uid-b", SERVER: "lifeboat"}},
        "spec": {"source": {"persistentVolumeClaimName": "data"}}});
    server.world.put(&format!("{SNAPSHOTS}/s"), place);
    take(&server.world, &format!("{SNAPSHOTS}/s"), Driver::Ready);
    let seen = server.world.watch_changes(&format!("{CONTENTS}/content-s"));
    if let Some(phase) = phase {
        server.add("b", spec(), &json!({"status": {"phase": phase}}));
    }
    left_behind::clear_snapshots(&server.context, &server.state).await;
    assert_eq!(left(&server), Vec::<String>::new());
    assert_eq!(seen.lock().unwrap().last().unwrap()["spec"]["deletionPolicy"], policy);
}

#[tokio::test]
async fn snapshots_of_another_installation_are_left_alone() {
    let server = server(Driver::Ready, &["fast"]).await;
    let labels = json!({OF_BACKUP: "uid-other", SERVER: "another", "velero.io/backup-name": "b"});
    let theirs = json!({"metadata": {"name": "s", "namespace": "shop", "labels": labels},
        "spec": {"source": {"persistentVolumeClaimName": "data"}}});
    server.world.put(&format!("{SNAPSHOTS}/s"), theirs);
    take(&server.world, &format!("{SNAPSHOTS}/s"), Driver::Ready);
    let before = left(&server);
    left_behind::clear_snapshots(&server.context, &server.state).await;
    assert_eq!(left(&server), before);
    assert!(!before.is_empty());
}

/// A snapshot of a backup whose object is gone.
fn orphan(server: &Server, location: &str) {
    let labels = json!({OF_BACKUP: "uid-gone", SERVER: "lifeboat", "velero.io/backup-name": "gone", "velero.io/storage-location": location});
    let object = json!({"metadata": {"name": "s", "namespace": "shop", "labels": labels},
        "spec": {"source": {"persistentVolumeClaimName": "data"}}});
    server.world.put(&format!("{SNAPSHOTS}/s"), object);
    take(&server.world, &format!("{SNAPSHOTS}/s"), Driver::Ready);
    let marked = json!({"metadata": {"labels": labels}, "spec": {"deletionPolicy": "Retain"}});
    server.world.change(&format!("{CONTENTS}/content-s"), &marked);
}

#[rstest]
#[case::nowhere("default", None, Some("Delete"))]
#[case::in_storage("default", Some("uid-gone"), Some("Retain"))]
#[case::another_of_its_name("default", Some("uid-other"), Some("Delete"))]
#[case::in_a_location_that_is_gone("elsewhere", None, None)]
#[case::wherever_it_was("", None, Some("Delete"))]
#[tokio::test]
async fn snapshots_of_a_backup_that_is_gone_go_only_where_nobody_has_it(
    #[case] location: &str,
    #[case] stored: Option<&str>,
    #[case] policy: Option<&str>,
) {
    let server = server(Driver::Ready, &["fast"]).await;
    orphan(&server, location);
    if let Some(uid) = stored {
        let file = json!({"metadata": {"name": "gone", "uid": uid}}).to_string();
        ObjectStore::put(&server.store(), "backups/gone/velero-backup.json", file.into()).await.unwrap();
    }
    let seen = server.world.watch_changes(&format!("{CONTENTS}/content-s"));
    left_behind::clear_snapshots(&server.context, &server.state).await;
    let last = seen.lock().unwrap().last().map(|change| change["spec"]["deletionPolicy"].clone());
    assert_eq!(last, policy.map(|policy| json!(policy)));
    assert_eq!(left(&server).len(), if policy.is_some() { 0 } else { 2 }, "what nobody knows of stays");
}

#[tokio::test]
async fn snapshots_of_a_backup_that_goes_on_are_left_alone() {
    let server = server(Driver::Slow, &["fast"]).await;
    server.add("b", spec(), &json!({}));
    assert_eq!(server.settle("b").await, "WaitingForPluginOperations");
    left_behind::clear_snapshots(&server.context, &server.state).await;
    assert_eq!(left(&server).len(), 2);
}
