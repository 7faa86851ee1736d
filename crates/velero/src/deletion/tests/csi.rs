//! CSI snapshots of a backup whose archive cannot be read any more.

use lifeboat_archive::documents::CsiSnapshotInfo;
use lifeboat_plan::velero::csi::CONTENT_DELETER;

use super::*;

/// A fake of the action that deletes the snapshots of contents.
#[derive(Default)]
struct Deleter {
    handles: Mutex<Vec<String>>,
    fails: bool,
}

#[async_trait]
impl DeleteItemAction for Deleter {
    fn name(&self) -> &'static str {
        CONTENT_DELETER
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        Ok(AppliesTo::resources(&["cm"]))
    }

    async fn execute(&self, item: &Value, _backup: &Backup) -> Result<(), ActionError> {
        let text = |pointer: &str| item.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let message = format!("{} {}", text("/spec/driver"), text("/status/snapshotHandle"));
        self.handles.lock().unwrap().push(message);
        if self.fails { Err(ActionError::Failed("its driver is gone".into())) } else { Ok(()) }
    }
}

async fn deleted(archive: Option<&str>, fails: bool) -> (Option<Value>, Vec<String>, Cluster) {
    let cluster = cluster("Completed").await;
    let files = BackupFiles::new("b").unwrap();
    match archive {
        Some(text) => cluster.store().put(&files.contents(), text.to_owned()).await.unwrap(),
        None => cluster.store().delete(&files.contents()).await.unwrap(),
    }
    let csi = CsiSnapshotInfo {
        snapshot_handle: "csi-1".into(),
        driver: "d".into(),
        vsc_name: "c".into(),
        ..CsiSnapshotInfo::default()
    };
    let volume = BackupVolumeInfo {
        pvc_namespace: "shop".into(),
        pvc_name: "data".into(),
        csi_snapshot_info: Some(csi),
        ..BackupVolumeInfo::default()
    };
    put_volumes(&cluster, &[volume]).await;
    let action = Arc::new(Deleter { fails, ..Deleter::default() });
    ask(&cluster, "b");
    let said = reconcile_with(&cluster, vec![action.clone()]).await;
    let handles = action.handles.lock().unwrap().clone();
    (said, handles, cluster)
}

#[rstest]
#[case::gone(None)]
#[case::broken(Some("no archive"))]
#[tokio::test]
async fn without_its_archive_a_snapshot_goes_by_its_handle(#[case] archive: Option<&str>) {
    let (said, handles, cluster) = Box::pin(deleted(archive, false)).await;
    assert_eq!((said, handles), (None, vec!["d csi-1".to_owned()]));
    assert_eq!(cluster.names("backups"), Vec::<String>::new());
    assert_eq!(keys(&cluster).await, ["backups/other/velero-backup.json"]);
}

#[tokio::test]
async fn a_snapshot_that_cannot_go_by_its_handle_keeps_its_backup() {
    let (said, _, cluster) = Box::pin(deleted(None, true)).await;
    let said = errors(said);
    for part in ["'csi-1' of claim 'shop/data' remains", "its driver is gone"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(cluster.get("backups", "b").unwrap()["status"]["phase"], "Completed");
}
