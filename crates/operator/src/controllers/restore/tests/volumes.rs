//! Data that a backup holds and that is not restored: named, and never Completed, however the backup says where it is.

use lifeboat_archive::BackupFiles;
use rstest::rstest;
use serde_json::{Value, json};

use super::setting::{Held, Setting};

/// A pod with two volumes, one of them a claim with its PersistentVolume.
fn items() -> Vec<Held> {
    let claim = json!({"spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}});
    let volumes = json!([{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "tmp", "emptyDir": {}}]);
    let volume = json!({"spec": {"persistentVolumeReclaimPolicy": "Delete",
        "claimRef": {"namespace": "shop", "name": "data"}}});
    vec![
        ("/v1/namespaces", "shop", json!({})),
        ("/v1/pods", "shop/web", json!({"spec": {"containers": [], "volumes": volumes}})),
        ("/v1/persistentvolumeclaims", "shop/data", claim),
        ("/v1/persistentvolumes", "pv", volume),
    ]
}

fn info(method: &str, more: &Value) -> Value {
    let mut info = json!({"pvcName": "data", "pvcNamespace": "shop", "pvName": "pv", "backupMethod": method});
    crate::testing::merge(&mut info, more);
    json!([info])
}

fn key(name: &str) -> String {
    let files = BackupFiles::new("b").unwrap();
    match name {
        "info" => files.volume_info(),
        "pods" => files.pod_volume_backups(),
        _ => files.csi_snapshots(),
    }
}

const COPY: &str = "as a copy of its files in a repository";

#[rstest]
#[case::kopia("info", info("PodVolumeBackup", &json!({"pvbInfo": {"podNamespace": "shop", "podName": "web", "volumeName": "d"}})), COPY)]
#[case::moved("info", info("CSISnapshot", &json!({"snapshotDataMoved": true})), "as a CSI snapshot that was moved into a repository")]
#[case::csi("info", info("CSISnapshot", &json!({})), "as a CSI snapshot,")]
#[case::failed("info", info("PodVolumeBackup", &json!({"result": "failed"})), "backing it up failed")]
#[case::older_kopia("pods", json!([{"spec": {"pod": {"namespace": "shop", "name": "web"}, "volume": "d"}, "status": {"phase": "Completed"}}]), COPY)]
#[case::older_csi("csi", json!([{"metadata": {"namespace": "shop"}, "spec": {"source": {"persistentVolumeClaimName": "data"}}}]), "as a CSI snapshot,")]
#[tokio::test]
async fn data_that_is_not_restored_is_named(#[case] file: &str, #[case] document: Value, #[case] held: &str) {
    let setting = Setting::holding(json!({}), &items()).await;
    setting.put(&key(file), &document).await;
    let status = setting.run().await;
    assert_eq!(status["phase"], "PartiallyFailed", "{status}");
    assert!(setting.object("/api/v1/namespaces/shop/pods/web").is_some(), "the objects are there");
    let claim = setting.object("/api/v1/namespaces/shop/persistentvolumeclaims/data").unwrap();
    assert_eq!(claim["spec"]["volumeName"], "made-anew");
    let errors = setting.results().await.errors;
    let all: Vec<&str> = errors.all().map(|(_, words)| words).collect();
    assert_eq!(all.len(), 1, "{all:?}");
    assert!(all[0].starts_with("the data of volume pv"), "{all:?}");
    assert!(all[0].contains(held), "{all:?}");
}

#[tokio::test]
async fn a_volume_without_a_claim_and_uploads_of_an_older_version_are_named_too() {
    let mut held = items();
    held.push((
        "velero.io/v2alpha1/datauploads",
        "velero/du",
        json!({"spec": {"sourceNamespace": "shop", "sourcePVC": "data"}}),
    ));
    let setting = Setting::holding(json!({}), &held).await;
    setting.api.served.lock().unwrap().push("velero.io/v2alpha1/datauploads");
    let copies = json!([{"spec": {"pod": {"namespace": "shop", "name": "web"}, "volume": "tmp"}}]);
    setting.put(&key("pods"), &copies).await;
    let status = setting.run().await;
    assert_eq!(status["phase"], "PartiallyFailed", "{status}");
    let errors = setting.results().await.errors;
    let all: Vec<&str> = errors.all().map(|(_, words)| words).collect();
    assert!(all.iter().any(|words| words.starts_with("the data of volume tmp of pod shop/web")), "{all:?}");
    assert!(
        all.iter().any(|words| words.contains("(claim shop/data)") && words.contains("moved")),
        "{all:?}"
    );
}

#[rstest]
#[case::nobody_wants_data(json!({"restorePVs": false}), "Completed")]
#[case::another_namespace(json!({"includedNamespaces": ["other"]}), "Completed")]
#[case::without_volumes(json!({"includedResources": ["persistentvolumeclaims"]}), "PartiallyFailed")]
#[case::mapped(json!({"namespaceMapping": {"shop": "copy"}}), "PartiallyFailed")]
#[tokio::test]
async fn data_is_missed_only_by_what_was_restored(#[case] spec: Value, #[case] phase: &str) {
    let setting = Setting::holding(spec, &items()).await;
    setting.put(&key("info"), &info("PodVolumeBackup", &json!({}))).await;
    let status = setting.run().await;
    assert_eq!(status["phase"], phase, "{status}");
}

#[tokio::test]
async fn a_volume_that_nobody_asked_for_changes_nothing() {
    let setting = Setting::holding(json!({}), &items()).await;
    setting.put(&key("info"), &info("", &json!({"skipped": true}))).await;
    assert_eq!(setting.run().await["phase"], "Completed");
}
