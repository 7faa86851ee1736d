//! What a tenant writes into a VolumeSnapshot opens nothing of other namespaces.

use lifeboat_control::testing::ApiServer;

use super::*;

const SNAPSHOT: &str = "/apis/snapshot.storage.k8s.io/v1/namespaces/shop/volumesnapshots/data-1";
const CONTENT: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents/content";
const AT_ONCE: TimeLimit = TimeLimit { time: Duration::ZERO, setting: "a test" };

/// A VolumeSnapshot of namespace `shop` whose status names a content, and that content, which is of a VolumeSnapshot `data-1` in a namespace.
async fn bound_to(namespace: &str) -> (ApiServer, Snapshots) {
    let server = ApiServer::default();
    let api_version = format!("{GROUP}/{VERSION}");
    let status = json!({"boundVolumeSnapshotContentName": "content", "readyToUse": true});
    server.put(
        SNAPSHOT,
        json!({"apiVersion": api_version, "kind": "VolumeSnapshot", "spec": {}, "status": status}),
    );
    let reference = json!({"namespace": namespace, "name": "data-1"});
    server.put(
        CONTENT,
        json!({"apiVersion": api_version, "kind": "VolumeSnapshotContent",
            "spec": {"deletionPolicy": "Retain", "volumeSnapshotRef": reference},
            "status": {"snapshotHandle": "handle", "creationTime": 5, "readyToUse": true}}),
    );
    let client = server.client().await;
    (server, Snapshots::new(&client))
}

#[tokio::test]
async fn a_content_that_another_namespace_owns_is_not_the_snapshots() {
    let (_, snapshots) = bound_to("shop").await;
    assert_eq!(
        snapshots.fixed("shop", "data-1", AT_ONCE).await.unwrap().content["metadata"]["name"],
        "content"
    );
    let (_, snapshots) = bound_to("bank").await;
    let refused = snapshots.fixed("shop", "data-1", AT_ONCE).await;
    assert!(matches!(refused, Err(NotTaken::TooLate { .. })), "{refused:?}");
}

#[tokio::test]
async fn removing_a_snapshot_leaves_the_content_of_another_namespace() {
    let (server, snapshots) = bound_to("bank").await;
    snapshots.remove("shop", "data-1", None, true).await.unwrap();
    assert!(server.get(SNAPSHOT).is_none());
    assert_eq!(server.get(CONTENT).unwrap()["spec"]["deletionPolicy"], "Retain");
    let (server, snapshots) = bound_to("shop").await;
    snapshots.remove("shop", "data-1", None, true).await.unwrap();
    assert!(server.get(CONTENT).is_none());
}

#[tokio::test]
async fn only_the_snapshot_that_was_read_is_deleted() {
    let (server, snapshots) = bound_to("shop").await;
    let read = snapshots.snapshot("shop", "data-1").await.unwrap().unwrap();
    server.change(SNAPSHOT, &json!({"metadata": {"labels": {"a": "b"}}}));
    assert!(snapshots.delete(&read).await.unwrap_err().is_conflict());
    let read = snapshots.snapshot("shop", "data-1").await.unwrap().unwrap();
    snapshots.delete(&read).await.unwrap();
    assert!(server.get(SNAPSHOT).is_none());
    snapshots.delete(&read).await.unwrap();
}
