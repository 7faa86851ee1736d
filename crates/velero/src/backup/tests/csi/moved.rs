//! Snapshots whose data is moved to the repository.

use lifeboat_plan::velero::csi::CLAIM_BACKUPPER;

use super::*;
use crate::backup::journal::{Journal, OperationEntry};

const UPLOADS: &str = "/apis/velero.io/v2alpha1/namespaces/lifeboat/datauploads";

#[tokio::test]
async fn data_is_moved_in_the_background_and_the_backup_says_where_it_is() {
    let server = server(Driver::Ready, &["fast"]).await;
    let config = json!({"parallelFilesUpload": 3});
    let spec = json!({"includedNamespaces": ["shop"], "snapshotMoveData": true, "uploaderConfig": config});
    server.add("b", spec, &json!({}));
    let stale = json!({"metadata": {"name": "zz-stale", "namespace": "lifeboat", "labels": {"velero.io/backup-uid": "uid-b",
        "velero.io/async-operation-id": "du-of-a-claim-that-is-gone"}}, "spec": {}});
    server.world.put(&format!("{UPLOADS}/zz-stale"), stale);
    assert_eq!(server.settle("b").await, "WaitingForPluginOperations");
    assert_eq!(server.world.get(&format!("{UPLOADS}/zz-stale")).unwrap()["spec"]["cancel"], true);
    let path = server.world.paths(UPLOADS).remove(0);
    let upload = server.world.get(&path).unwrap();
    assert!(upload["spec"].get("cancel").is_none());
    assert_eq!(upload["spec"]["csiSnapshot"]["volumeSnapshot"], *snapshot());
    assert_eq!(upload["spec"]["dataMoverConfig"], json!({"ParallelFilesUpload": "3"}));
    assert_eq!(
        (&upload["spec"]["sourceNamespace"], &upload["spec"]["sourcePVC"]),
        (&json!("shop"), &json!("data"))
    );
    let done = json!({"status": {"phase": "Completed", "snapshotID": "abc", "progress": {"totalBytes": 9, "bytesDone": 9},
        "incrementalBytes": 3}});
    server.world.change(&path, &done);
    assert_eq!(server.settle("b").await, "Completed", "{}", errors(&server).await);
    let volume = volumes(&server).await.remove(0);
    assert_eq!((&volume["snapshotDataMoved"], &volume["result"]), (&json!(true), &json!("succeeded")));
    let moved = &volume["snapshotDataMovementInfo"];
    assert_eq!(
        (&moved["snapshotHandle"], &moved["size"], &moved["uploaderType"]),
        (&json!("abc"), &json!(9), &json!("restic"))
    );
    let claim = archived_claim(&server).await;
    let name = path.rsplit('/').next().unwrap();
    assert_eq!(claim["metadata"]["annotations"]["velero.io/data-upload-name"], format!("lifeboat/{name}"));
    let kept = format!("datauploads.velero.io/namespaces/lifeboat/{name}");
    let kept = archived_object(&server.store(), "backups/b/b.tar.gz", &kept).await.unwrap();
    assert_eq!(kept["status"]["snapshotID"], "abc", "the archive has it as it became");
}

#[tokio::test]
async fn data_that_was_not_moved_makes_the_backup_partial() {
    let server = server(Driver::Ready, &["fast"]).await;
    server.add("b", json!({"includedNamespaces": ["shop"], "snapshotMoveData": true}), &json!({}));
    assert_eq!(server.settle("b").await, "WaitingForPluginOperations");
    let path = server.world.paths(UPLOADS).remove(0);
    server.world.change(&path, &json!({"status": {"phase": "Failed", "message": "no space in the bucket"}}));
    assert_eq!(server.settle("b").await, "PartiallyFailed");
    assert_eq!(volumes(&server).await[0]["result"], "failed");
    let said = errors(&server).await;
    assert!(said.contains("claim shop/data was not moved: no space in the bucket"), "{said}");
}

#[tokio::test]
async fn a_cancelled_backup_cancels_the_movement() {
    let server = server(Driver::Ready, &["fast"]).await;
    server.add("b", json!({"includedNamespaces": ["shop"], "snapshotMoveData": true}), &json!({}));
    assert_eq!(server.settle("b").await, "WaitingForPluginOperations");
    let path = server.world.paths(UPLOADS).remove(0);
    server.world.change(
        &format!("{BACKUPS}/b"),
        &json!({"metadata": {"annotations": {"lifeboat.io/cancel": "true"}}}),
    );
    assert_eq!(server.settle("b").await, "Failed");
    assert_eq!(server.world.get(&path).unwrap()["spec"]["cancel"], true);
}

#[tokio::test]
async fn a_server_that_died_before_it_removed_the_journal_does_not_cancel_what_its_backup_waits_for() {
    let server = server(Driver::Ready, &["fast"]).await;
    server.add("b", json!({"includedNamespaces": ["shop"], "snapshotMoveData": true}), &json!({}));
    assert_eq!(server.settle("b").await, "WaitingForPluginOperations");
    let (path, backup) =
        (server.world.paths(UPLOADS).remove(0), server.world.get(&format!("{BACKUPS}/b")).unwrap());
    let journal = Journal::new(
        server.context.client.clone(),
        &server.context.namespace,
        &serde_json::from_value(backup).unwrap(),
    );
    let entry = OperationEntry {
        backup: "b".to_owned(),
        action: CLAIM_BACKUPPER.to_owned(),
        operation: lifeboat_plan::velero::data_movement::operation("du-", "uid-b", "uid-data"),
        item: "claim shop/data".to_owned(),
    };
    journal.note_operation(&entry).await.unwrap();
    let found = left_behind::find(&server.context, &server.state).await.unwrap();
    assert_eq!(found.len(), 1);
    left_behind::end(&server.context, &found).await;
    assert!(server.world.get(&path).unwrap()["spec"].get("cancel").is_none());
    assert_eq!(server.world.paths("lifeboat-operations"), Vec::<String>::new());
}

#[tokio::test]
async fn a_movement_of_an_interrupted_attempt_is_taken_over_without_another_snapshot() {
    let server = server(Driver::Ready, &["fast"]).await;
    let operation = lifeboat_plan::velero::data_movement::operation("du-", "uid-b", "uid-data");
    let upload = json!({"apiVersion": "velero.io/v2alpha1", "kind": "DataUpload",
        "metadata": {"name": "earlier", "namespace": "lifeboat", "labels": {"velero.io/backup-uid": "uid-b",
            "velero.io/async-operation-id": operation}},
        "spec": {"csiSnapshot": {"volumeSnapshot": "copied-and-gone", "storageClass": "fast"}},
        "status": {"phase": "Completed", "snapshotID": "abc"}});
    server.world.put(&format!("{UPLOADS}/earlier"), upload);
    let begun =
        json!({"status": {"phase": "InProgress"}, "metadata": {"annotations": {"lifeboat.io/attempt": "1"}}});
    server.add("b", json!({"includedNamespaces": ["shop"], "snapshotMoveData": true}), &begun);
    assert_eq!(server.settle("b").await, "Completed", "{}", errors(&server).await);
    assert_eq!((created(&server), server.world.paths(UPLOADS).len()), (0, 1));
    let volume = volumes(&server).await.remove(0);
    assert_eq!(volume["snapshotDataMovementInfo"]["snapshotHandle"], "abc", "{volume}");
}
