//! Driver VolumeSnapshotter: an invoker needs no Repository, and a cluster with snapshots.

use super::*;

const CLASSES: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses";

/// An invoker without Repository, which names a class.
fn put_snapshotter(world: &World, class: &str) {
    let target = json!({"snapshotClassName": class, "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}});
    let changes = json!({"driver": "VolumeSnapshotter", "repository": null, "target": target});
    put(world, &InvokerKind::BackupConfiguration, "nightly", &changes);
}

#[tokio::test]
async fn an_invoker_without_a_repository_is_ready_and_its_schedule_is_in_force() {
    let (world, kind) = (world().await, InvokerKind::BackupConfiguration);
    let class = json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass", "driver": "csi.example"});
    world.server.put(&format!("{CLASSES}/fast"), class);
    put_snapshotter(&world, "fast");
    let object = reconciled(&world, &kind, "nightly").await;
    assert_eq!(object["status"]["phase"], "Ready", "{object}");
    assert_eq!(condition(&object, "RepositoryFound").0, "", "{object}");
    reconciled(&world, &kind, "nightly").await;
    assert_eq!(sessions(&world).len(), 1);
}

#[tokio::test]
async fn a_class_that_does_not_exist_makes_it_invalid_until_it_does() {
    let (world, kind) = (world().await, InvokerKind::BackupConfiguration);
    put_snapshotter(&world, "fast");
    let object = reconciled(&world, &kind, "nightly").await;
    assert_eq!(object["status"]["phase"], "Invalid", "{object}");
    let (_, message) = condition(&object, "ValidationPassed");
    assert!(
        message.contains("\"fast\" (target.snapshotClassName) does not exist; the cluster has none"),
        "{message}"
    );
    let class = json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass", "driver": "csi.example"});
    world.server.put(&format!("{CLASSES}/fast"), class);
    assert_eq!(reconciled(&world, &kind, "nightly").await["status"]["phase"], "Ready");
}

#[tokio::test]
async fn a_cluster_without_snapshots_makes_it_invalid() {
    let (world, kind) = (world().await, InvokerKind::BackupConfiguration);
    put_snapshotter(&world, "");
    world.server.without("snapshot.storage.k8s.io");
    let object = reconciled(&world, &kind, "nightly").await;
    assert_eq!(object["status"]["phase"], "Invalid", "{object}");
    let (_, message) = condition(&object, "ValidationPassed");
    assert!(message.contains("install the CSI snapshot CRDs and controller"), "{message}");
}

#[tokio::test]
async fn a_batch_that_takes_snapshots_now_leaves_its_repository_to_another() {
    let (world, kind) = (world().await, InvokerKind::BackupBatch);
    put_batch(&world, "first", &[target("web", "a")]);
    put_batch(&world, "second", &[target("db", "b")]);
    assert_eq!(reconciled(&world, &kind, "first").await["status"]["phase"], "Ready");
    assert_eq!(reconciled(&world, &kind, "second").await["status"]["phase"], "Invalid");
    // It still names the Repository, into which this driver writes nothing.
    let changed = json!({"metadata": {"generation": 2}, "spec": {"driver": "VolumeSnapshotter"}});
    world.server.change(&path(&kind, "first"), &changed);
    assert_eq!(reconciled(&world, &kind, "first").await["status"]["phase"], "Ready");
    assert_eq!(reconciled(&world, &kind, "second").await["status"]["phase"], "Ready");
}
