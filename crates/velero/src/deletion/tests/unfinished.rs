//! Deletions that did not finish: a backup that lost a snapshot never shows that it is complete.

use lifeboat_archive::documents::CsiSnapshotInfo;
use lifeboat_plan::velero::csi::CONTENT_DELETER;

use super::*;

/// A fake of the action that deletes the snapshots of contents: it fails for the handle `csi-fails`.
struct Deleter;

#[async_trait]
impl DeleteItemAction for Deleter {
    fn name(&self) -> &'static str {
        CONTENT_DELETER
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        Ok(AppliesTo::resources(&["cm"]))
    }

    async fn execute(&self, item: &Value, _backup: &Backup) -> Result<(), ActionError> {
        match item["status"]["snapshotHandle"].as_str() {
            Some("csi-fails") => Err(ActionError::Failed("its driver is gone".into())),
            _ => Ok(()),
        }
    }
}

async fn with_snapshots(handles: &[&str]) -> Cluster {
    let cluster = cluster("Completed").await;
    let volume = |handle: &&str| BackupVolumeInfo {
        csi_snapshot_info: Some(CsiSnapshotInfo {
            snapshot_handle: (*handle).into(),
            driver: "d".into(),
            vsc_name: format!("content-{handle}"),
            ..CsiSnapshotInfo::default()
        }),
        ..BackupVolumeInfo::default()
    };
    put_volumes(&cluster, &handles.iter().map(volume).collect::<Vec<_>>()).await;
    cluster.store().delete(&BackupFiles::new("b").unwrap().contents()).await.unwrap();
    cluster
}

async fn stored_phase(cluster: &Cluster) -> String {
    let stored = cluster.store().get("backups/b/velero-backup.json").await.unwrap();
    serde_json::from_slice::<Value>(&stored).unwrap()["status"]["phase"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_backup_that_lost_one_of_its_csi_snapshots_is_none_that_completed() {
    let cluster = with_snapshots(&["csi-1", "csi-fails"]).await;
    ask(&cluster, "b");
    let said = errors(reconcile_with(&cluster, vec![Arc::new(Deleter)]).await);
    assert!(said.contains("csi-fails") && !said.contains("csi-1"), "{said}");
    let status = cluster.get("backups", "b").unwrap()["status"].clone();
    assert_eq!(status["phase"], "PartiallyFailed", "{status}");
    assert!(status["failureReason"].as_str().unwrap_or_default().contains("partly deleted"), "{status}");
    assert_eq!(stored_phase(&cluster).await, "PartiallyFailed", "other clusters read it there");
}

#[tokio::test]
async fn a_backup_whose_first_snapshot_cannot_be_deleted_stays_as_it_was() {
    let cluster = with_snapshots(&["csi-fails"]).await;
    ask(&cluster, "b");
    errors(reconcile_with(&cluster, vec![Arc::new(Deleter)]).await);
    assert_eq!(cluster.get("backups", "b").unwrap()["status"]["phase"], "Completed");
    assert_eq!(stored_phase(&cluster).await, "Completed");
}

#[tokio::test]
async fn a_server_that_died_between_two_snapshots_leaves_no_complete_backup() {
    let cluster = with_snapshots(&["csi-1", "csi-fails"]).await;
    ask(&cluster, "b");
    reconcile_with(&cluster, vec![Arc::new(Deleter)]).await;
    // The next server finds the phase of the deletion, and cannot read a list.
    cluster.change("backups", "b", &json!({"status": {"phase": "Deleting", "failureReason": null}}));
    cluster.change("deletebackuprequests", "q", &json!({"status": {"phase": "InProgress"}}));
    cluster.store().put(&BackupFiles::new("b").unwrap().volume_info(), "garbage").await.unwrap();
    errors(reconcile_with(&cluster, vec![Arc::new(Deleter)]).await);
    assert_eq!(cluster.get("backups", "b").unwrap()["status"]["phase"], "PartiallyFailed");
}
