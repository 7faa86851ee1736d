//! Claims that come back from CSI snapshots.

use lifeboat_archive::BackupFiles;
use lifeboat_plan::velero::csi::{SNAPSHOT_NAME, restored_name};
use rstest::rstest;
use serde_json::{Value, json};

use super::setting::{Held, Setting};

const SNAPSHOT_TYPES: [&str; 3] = [
    "snapshot.storage.k8s.io/v1/volumesnapshots",
    "snapshot.storage.k8s.io/v1/volumesnapshotcontents",
    "snapshot.storage.k8s.io/v1/volumesnapshotclasses",
];

fn items() -> Vec<Held> {
    let claim = json!({"metadata": {"uid": "cu", "annotations": {SNAPSHOT_NAME: "s"}, "labels": {SNAPSHOT_NAME: "s"}},
        "spec": {"volumeName": "pv", "storageClassName": "fast"}, "status": {"phase": "Bound"}});
    let volume = json!({"spec": {"persistentVolumeReclaimPolicy": "Delete",
        "claimRef": {"namespace": "shop", "name": "data"}, "csi": {"driver": "d"}}});
    let snapshot = json!({"metadata": {"labels": {"velero.io/backup-name": "b", "lifeboat.io/backup-uid": "bu"}},
        "spec": {"source": {"persistentVolumeClaimName": "data"}, "volumeSnapshotClassName": "gone"},
        "status": {"boundVolumeSnapshotContentName": "c", "readyToUse": true}});
    let content = json!({"metadata": {"labels": {"velero.io/backup-name": "b", "lifeboat.io/backup-uid": "bu"}},
        "spec": {"driver": "d", "deletionPolicy": "Retain", "source": {"volumeHandle": "v"},
            "volumeSnapshotRef": {"namespace": "shop", "name": "s", "uid": "u"}},
        "status": {"snapshotHandle": "handle-1", "readyToUse": true}});
    vec![
        ("/v1/namespaces", "shop", json!({})),
        ("/v1/persistentvolumes", "pv", volume),
        ("/v1/persistentvolumeclaims", "shop/data", claim),
        (SNAPSHOT_TYPES[0], "shop/s", snapshot),
        (SNAPSHOT_TYPES[1], "c", content),
    ]
}

async fn setting(spec: Value, result: &str) -> Setting {
    let mut setting = Setting::holding(spec, &items()).await;
    setting.csi = true;
    setting.serve(&SNAPSHOT_TYPES);
    let info = json!([{"pvcName": "data", "pvcNamespace": "shop", "pvName": "pv", "backupMethod": "CSISnapshot",
        "result": result, "csiSnapshotInfo": {"snapshotHandle": "handle-1", "driver": "d", "vscName": "c"}}]);
    setting.put(&BackupFiles::new("b").unwrap().volume_info(), &info).await;
    setting
}

#[rstest]
#[case::same_namespace(json!({}), "shop")]
#[case::another_namespace(json!({"namespaceMapping": {"shop": "copy"}}), "copy")]
#[case::some_namespaces(json!({"includedNamespaces": ["shop"], "includedResources": ["persistentvolumeclaims"]}), "shop")]
#[tokio::test]
async fn a_claim_is_filled_from_its_snapshot(#[case] spec: Value, #[case] namespace: &str) {
    let setting = setting(spec, "succeeded").await;
    let status = setting.run().await;
    assert_eq!(status["phase"], "Completed", "{:?}", setting.results().await.errors);
    let name = restored_name("ru", "s");
    let claim =
        setting.object(&format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/data")).unwrap();
    assert_eq!(claim["spec"]["dataSource"]["name"], *name);
    let group = "/apis/snapshot.storage.k8s.io/v1";
    let snapshot = setting.object(&format!("{group}/namespaces/{namespace}/volumesnapshots/{name}")).unwrap();
    assert_eq!(snapshot["spec"], json!({"source": {"volumeSnapshotContentName": name}}));
    assert!(snapshot["metadata"]["labels"].get("lifeboat.io/backup-uid").is_none(), "it is no backup's");
    let content = setting.object(&format!("{group}/volumesnapshotcontents/{name}")).unwrap();
    assert_eq!(content["spec"]["source"], json!({"snapshotHandle": "handle-1"}));
    assert_eq!(content["spec"]["deletionPolicy"], "Retain");
    assert_eq!(content["spec"]["volumeSnapshotRef"]["namespace"], namespace);
    let infos: Vec<Value> = setting.get(&super::setting::files().volume_info()).await;
    assert_eq!(
        (&infos[0]["restoreMethod"], &infos[0]["pvcNamespace"]),
        (&json!("CSISnapshot"), &json!(namespace))
    );
}

#[tokio::test]
async fn without_data_the_claim_comes_back_empty() {
    let setting = setting(json!({"restorePVs": false}), "succeeded").await;
    assert_eq!(setting.run().await["phase"], "Completed");
    let claim = setting.object("/api/v1/namespaces/shop/persistentvolumeclaims/data").unwrap();
    assert!(claim["spec"].get("dataSource").is_none(), "{claim}");
    let made = setting.server.created();
    assert!(!made.iter().any(|path| path.contains("volumesnapshot")), "{made:?}");
}

#[tokio::test]
async fn a_snapshot_that_came_to_nothing_is_told_and_not_waited_for() {
    let setting = setting(json!({}), "failed").await;
    assert_eq!(setting.run().await["phase"], "PartiallyFailed");
    let claim = setting.object("/api/v1/namespaces/shop/persistentvolumeclaims/data").unwrap();
    assert!(claim["spec"].get("dataSource").is_none(), "{claim}");
    let errors = setting.results().await.errors;
    assert!(errors.all().any(|(_, message)| message.contains("backing it up failed")), "{errors:?}");
}

#[tokio::test]
async fn a_cluster_without_snapshots_says_so_and_makes_no_empty_volume() {
    let setting =
        setting(json!({"excludedResources": ["volumesnapshots", "volumesnapshotcontents"]}), "succeeded")
            .await;
    setting.without_snapshots();
    assert_eq!(setting.run().await["phase"], "PartiallyFailed");
    assert!(setting.object("/api/v1/namespaces/shop/persistentvolumeclaims/data").is_none());
    let errors = setting.results().await.errors;
    assert!(errors.all().any(|(_, message)| message.contains("does not serve")), "{errors:?}");
}

#[tokio::test]
async fn a_claim_whose_driver_does_not_find_the_snapshot_is_an_error() {
    let mut setting = setting(json!({}), "succeeded").await;
    setting.settings.restore.resource_timeout = std::time::Duration::ZERO;
    setting.leave_claims_pending();
    // The provisioner.
    setting.server.on_write(|server, write| {
        if write.path.ends_with("/persistentvolumeclaims/data") {
            let claim = json!({"kind": "PersistentVolumeClaim", "name": "data",
                "uid": server.get(&write.path).unwrap()["metadata"]["uid"]});
            let event = json!({"type": "Warning", "reason": "ProvisioningFailed", "involvedObject": claim,
                "message": "rpc error: code = NotFound desc = snapshot handle-1"});
            server.put("/api/v1/namespaces/shop/events/e", event);
        }
    });
    assert_eq!(setting.run().await["phase"], "PartiallyFailed");
    let errors = setting.results().await.errors;
    let message = errors.namespaces["shop"].join("\n");
    assert!(message.contains("claim shop/data") && message.contains("snapshot handle-1"), "{message}");
}

/// A backup whose claim's data was moved.
async fn moved(upload: Option<Value>) -> Setting {
    let claim = json!({"metadata": {"uid": "cu", "annotations": {SNAPSHOT_NAME: "s", "velero.io/data-upload-name": "velero/du"}},
        "spec": {"volumeName": "pv", "storageClassName": "fast"}, "status": {"phase": "Bound"}});
    let volume = json!({"spec": {"persistentVolumeReclaimPolicy": "Delete", "claimRef": {"namespace": "shop", "name": "data"}}});
    let mut items = vec![
        ("/v1/namespaces", "shop", json!({})),
        ("/v1/persistentvolumes", "pv", volume),
        ("/v1/persistentvolumeclaims", "shop/data", claim),
    ];
    items.extend(upload.map(|upload| ("velero.io/v2alpha1/datauploads", "velero/du", upload)));
    let mut setting =
        Setting::holding(json!({"namespaceMapping": {"shop": "copy"}, "itemOperationTimeout": "1s"}), &items)
            .await;
    setting.csi = true;
    setting.serve(&["velero.io/v2alpha1/datauploads", "velero.io/v1/backups"]);
    let info = json!([{"pvcName": "data", "pvcNamespace": "shop", "pvName": "pv", "backupMethod": "CSISnapshot",
        "snapshotDataMoved": true, "result": "succeeded"}]);
    setting.put(&BackupFiles::new("b").unwrap().volume_info(), &info).await;
    setting
}

#[tokio::test]
async fn a_claim_whose_data_was_moved_waits_for_it() {
    let upload = json!({"spec": {"sourceNamespace": "shop", "sourcePVC": "data"},
        "status": {"phase": "Completed", "snapshotID": "abc", "progress": {"totalBytes": 9}}});
    let setting = moved(Some(upload)).await;
    setting.leave_claims_pending();
    // No data mover runs here, so the operation exceeds its time limit.
    assert_eq!(setting.run().await["phase"], "PartiallyFailed");
    let claim = setting.object("/api/v1/namespaces/copy/persistentvolumeclaims/data").unwrap();
    let selector = claim["spec"]["selector"]["matchLabels"]["velero.io/dynamic-pv-restore"].as_str().unwrap();
    assert!(selector.starts_with("copy.data."), "{selector}");
    assert!(claim["metadata"]["annotations"].get("lifeboat.io/data-upload").is_none(), "{claim}");
    let downloads = "/apis/velero.io/v2alpha1/namespaces/lifeboat/datadownloads/";
    let download = setting.object(&setting.server.paths(downloads)[0]).unwrap();
    assert_eq!(download["spec"]["snapshotID"], "abc");
    assert_eq!(download["spec"]["targetVolume"], json!({"pvc": "data", "pv": "", "namespace": "copy"}));
    assert_eq!(download["spec"]["sourceNamespace"], "shop");
    assert_eq!(download["spec"]["cancel"], true, "what is late is told to end");
}

#[tokio::test]
async fn a_claim_that_was_made_before_a_restart_is_told_as_filled() {
    let upload = json!({"spec": {"sourceNamespace": "shop", "sourcePVC": "data"},
        "status": {"phase": "Completed", "snapshotID": "abc", "progress": {"totalBytes": 9}}});
    let setting = moved(Some(upload)).await;
    let change = |path: &str, with: Value| {
        setting.server.change(path, &with);
    };
    change(super::setting::RESTORE, json!({"spec": {"itemOperationTimeout": "1h"}}));
    let (waits, api) = (std::sync::Arc::new(tokio::sync::Notify::new()), setting.api.clone());
    let told = waits.clone();
    setting.on_request(move |_| {
        if api.phases().iter().any(|phase| phase == "WaitingForPluginOperations") {
            told.notify_one();
        }
    });
    // The server dies while the data is on its way, and its last word on the phase is lost.
    tokio::select! {
        status = setting.run() => panic!("{status}"),
        () = waits.notified() => {}
    }
    setting.on_request(|_| {});
    let again =
        json!({"metadata": {"annotations": {"lifeboat.io/attempt": "2"}}, "status": {"phase": "InProgress"}});
    change(super::setting::RESTORE, again);
    let downloads = "/apis/velero.io/v2alpha1/namespaces/lifeboat/datadownloads/";
    let download = setting.server.paths(downloads).remove(0);
    change(&download, json!({"status": {"phase": "Completed"}}));
    let status = setting.run().await;
    assert_eq!(status["phase"], "Completed", "{:?}", setting.results().await);
    let made = setting.server.created().iter().filter(|path| path.starts_with(downloads)).count();
    assert_eq!(made, 1, "its data is moved once");
    let infos: Vec<Value> = setting.get(&super::setting::files().volume_info()).await;
    assert_eq!(infos[0]["pvcNamespace"], "copy", "{infos:?}");
}

#[tokio::test]
async fn a_claim_of_an_earlier_restore_of_the_same_name_is_left_alone() {
    let setting = setting(json!({}), "succeeded").await;
    let path = "/api/v1/namespaces/shop/persistentvolumeclaims/data";
    let older = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop",
        "labels": {"velero.io/restore-name": "r"}, "creationTimestamp": "2026-11-16T01:00:00Z"}, "status": {"phase": "Bound"}});
    setting.server.put(path, older);
    let younger = json!({"metadata": {"creationTimestamp": "2026-11-16T02:00:00Z"}});
    setting.server.change(super::setting::RESTORE, &younger);
    setting.run().await;
    let made = setting.server.created();
    assert!(!made.iter().any(|path| path.contains("persistentvolumeclaims")), "{made:?}");
    let infos: Vec<Value> = setting.get(&super::setting::files().volume_info()).await;
    assert!(infos.is_empty(), "{infos:?}");
}

#[tokio::test]
async fn a_claim_whose_moved_data_misses_files_is_filled_with_the_rest() {
    let upload = json!({"spec": {"sourceNamespace": "shop", "sourcePVC": "data"},
        "status": {"phase": "Failed", "snapshotID": "abc", "progress": {"totalBytes": 9}}});
    let setting = moved(Some(upload)).await;
    let info = json!([{"pvcName": "data", "pvcNamespace": "shop", "pvName": "pv", "backupMethod": "CSISnapshot",
        "snapshotDataMoved": true, "result": "failed",
        "snapshotDataMovementInfo": {"dataMover": "", "uploaderType": "restic", "snapshotHandle": "abc", "operationID": "o"}}]);
    setting.put(&BackupFiles::new("b").unwrap().volume_info(), &info).await;
    setting.leave_claims_pending();
    setting.run().await;
    let downloads = "/apis/velero.io/v2alpha1/namespaces/lifeboat/datadownloads/";
    assert!(!setting.server.paths(downloads).is_empty(), "{:?}", setting.server.paths(""));
    let results = setting.results().await;
    assert!(results.warnings.all().any(|(_, message)| message.contains("incomplete copy")), "{results:?}");
    assert!(
        !results.errors.all().any(|(_, message)| message.contains("backing it up failed")),
        "{results:?}"
    );
}

#[tokio::test]
async fn a_claim_whose_upload_is_not_in_the_backup_is_an_error() {
    let setting = moved(None).await;
    assert_eq!(setting.run().await["phase"], "PartiallyFailed");
    assert!(
        setting.object("/api/v1/namespaces/copy/persistentvolumeclaims/data").is_none(),
        "no empty volume"
    );
    let errors = setting.results().await.errors;
    assert!(errors.all().any(|(_, message)| message.contains("its DataUpload is missing")), "{errors:?}");
}
