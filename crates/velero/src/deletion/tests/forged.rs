//! Lists and archives that another user wrote into the bucket: what they name is not deleted, and is
//! reported.

use lifeboat_archive::documents::{BackupVolumeInfo, CsiSnapshotInfo};
use lifeboat_control::testing::ServedType;
use lifeboat_plan::velero::csi::CONTENT_DELETER;

use super::*;
use crate::testing::repositories::{PASSWORD, prepare, snapshots, tagged};
use crate::testing::volumes::FakeSnapshotter;

/// A fake of the action that deletes the snapshots of contents: it fails for the handle `csi-fails`.
#[derive(Default)]
struct Deleter {
    handles: Mutex<Vec<String>>,
}

#[async_trait]
impl DeleteItemAction for Deleter {
    fn name(&self) -> &'static str {
        CONTENT_DELETER
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        Ok(AppliesTo::resources(&["volumesnapshotcontents.snapshot.storage.k8s.io"]))
    }

    async fn execute(&self, item: &Value, _backup: &Backup) -> Result<(), ActionError> {
        let handle = item["status"]["snapshotHandle"].as_str().unwrap_or_default();
        self.handles.lock().unwrap().push(handle.to_owned());
        if handle == "csi-fails" { Err(ActionError::Failed("its driver is gone".into())) } else { Ok(()) }
    }
}

fn volume(claim: &str, handle: &str) -> BackupVolumeInfo {
    let csi = CsiSnapshotInfo {
        snapshot_handle: handle.into(),
        driver: "d".into(),
        vsc_name: format!("content-{claim}"),
        ..CsiSnapshotInfo::default()
    };
    BackupVolumeInfo {
        pvc_namespace: "shop".into(),
        pvc_name: claim.into(),
        csi_snapshot_info: Some(csi),
        ..BackupVolumeInfo::default()
    }
}

async fn put_list(cluster: &Cluster, key: &str, list: &Value) {
    cluster.store().put(key, documents::encode(list).unwrap()).await.unwrap();
}

/// The backup is gone with its files, and the request names what is left.
async fn gone_without(cluster: &Cluster, said: Option<Value>, parts: &[&str]) {
    let said = errors(said);
    for part in parts {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(cluster.names("backups"), Vec::<String>::new());
    assert_eq!(keys(cluster).await, ["backups/other/velero-backup.json"]);
    assert!(cluster.events().contains(&"SnapshotsLeft".to_owned()), "{:?}", cluster.events());
}

#[tokio::test]
async fn a_plugin_snapshot_that_only_the_bucket_names_is_left() {
    let fake = FakeSnapshotter::default();
    let mut cluster = cluster("Completed").await;
    cluster.context.snapshotters.insert("velero.io/fake".to_owned(), Arc::new(fake.clone()));
    cluster.put(
        "volumesnapshotlocations",
        &json!({"apiVersion": "velero.io/v1", "kind": "VolumeSnapshotLocation", "metadata": {"name": "cloud"},
            "spec": {"provider": "fake"}}),
    );
    let listed = json!([{"spec": {"persistentVolumeName": "disk", "location": "cloud", "backupUID": "uid-b"},
        "status": {"providerSnapshotID": "snap-of-another"}}]);
    put_list(&cluster, &BackupFiles::new("b").unwrap().volume_snapshots(), &listed).await;
    let said = request(&cluster, "b", None).await;
    assert_eq!(fake.calls(), Vec::<String>::new());
    gone_without(&cluster, said, &["snap-of-another", "is left", "only the bucket says"]).await;
}

#[tokio::test]
async fn a_csi_snapshot_that_only_the_bucket_names_is_left() {
    let cluster = cluster("Completed").await;
    let files = BackupFiles::new("b").unwrap();
    put_list(&cluster, &files.volume_info(), &json!([volume("data", "csi-of-another")])).await;
    cluster.store().delete(&files.contents()).await.unwrap();
    let action = Arc::new(Deleter::default());
    ask(&cluster, "b");
    let said = reconcile_with(&cluster, vec![action.clone()]).await;
    assert_eq!(*action.handles.lock().unwrap(), Vec::<String>::new());
    gone_without(&cluster, said, &["csi-of-another", "shop/data", "is left"]).await;
}

#[tokio::test]
async fn a_content_that_somebody_put_into_the_archive_deletes_nothing() {
    let cluster = cluster("Completed").await;
    let group = "snapshot.storage.k8s.io";
    cluster.server.serve([ServedType::new(
        "snapshot.storage.k8s.io/v1",
        "volumesnapshotcontents",
        "VolumeSnapshotContent",
    )
    .cluster_scoped()]);
    let files = BackupFiles::new("b").unwrap();
    let writer = ArchiveWriter::start(Arc::new(cluster.store()), files.contents(), &WriterOptions::default());
    let content = json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
        "metadata": {"name": "c", "labels": {"velero.io/backup-name": "b"}},
        "spec": {"driver": "d"}, "status": {"snapshotHandle": "csi-of-another"}});
    let id = ItemId::cluster(GroupResource::new(group, "volumesnapshotcontents"), "c");
    writer.append(&id, "v1", true, content.to_string().into()).await.unwrap();
    writer.finish().await.unwrap();
    let action = Arc::new(Deleter::default());
    ask(&cluster, "b");
    let said = reconcile_with(&cluster, vec![action.clone()]).await;
    assert_eq!(*action.handles.lock().unwrap(), Vec::<String>::new());
    gone_without(&cluster, said, &["csi-of-another", "in the archive is left"]).await;
}

#[rstest]
#[case::of_another_backup(&["backup=other", "backup-uid=uid-other"])]
#[case::of_another_object_of_the_name(&["backup=b", "backup-uid=uid-of-old"])]
#[case::without_tags(&[])]
#[tokio::test]
async fn a_snapshot_in_a_repository_whose_tags_name_another_backup_is_left(#[case] tags: &[&str]) {
    let cluster = cluster("Completed").await;
    prepare(&cluster, PASSWORD);
    let theirs = tagged(&cluster, "shop", tags).await;
    let copies = json!([{"spec": {"volume": "data", "pod": {"namespace": "shop", "name": "db-0"}},
        "status": {"snapshotID": theirs[..8]}}]);
    put_list(&cluster, &BackupFiles::new("b").unwrap().volume_copies(), &copies).await;
    let said = errors(request(&cluster, "b", None).await);
    assert!(said.contains(&theirs) && said.contains("its tags do not name this backup"), "{said}");
    assert_eq!(snapshots(&cluster, "shop").await, [theirs]);
    assert_eq!(cluster.names("backups"), Vec::<String>::new());
}
