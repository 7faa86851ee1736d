//! Data that a backup holds and that is not restored: it is named in the results, and the restore is never Completed,
//! wherever the backup lists the data.

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
#[case::csi("info", info("CSISnapshot", &json!({})), "as a CSI snapshot, and its claim does not say which one")]
#[case::failed("info", info("PodVolumeBackup", &json!({"result": "failed"})), "backing it up failed")]
#[case::older_kopia("pods", json!([{"spec": {"pod": {"namespace": "shop", "name": "web"}, "volume": "d"}, "status": {"phase": "Completed"}}]), COPY)]
#[case::older_csi("csi", json!([{"metadata": {"namespace": "shop"}, "spec": {"source": {"persistentVolumeClaimName": "data"}}}]), "as a CSI snapshot, and its claim does not say which one")]
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
    let all: Vec<&str> = errors.all().map(|(_, message)| message).collect();
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
    setting.serve(&["velero.io/v2alpha1/datauploads"]);
    let copies = json!([{"spec": {"pod": {"namespace": "shop", "name": "web"}, "volume": "tmp"}}]);
    setting.put(&key("pods"), &copies).await;
    let status = setting.run().await;
    assert_eq!(status["phase"], "PartiallyFailed", "{status}");
    let errors = setting.results().await.errors;
    let all: Vec<&str> = errors.all().map(|(_, message)| message).collect();
    assert!(
        all.iter().any(|message| message.starts_with("the data of volume tmp of pod shop/web")),
        "{all:?}"
    );
    assert!(
        all.iter().any(|message| message.contains("(claim shop/data)") && message.contains("moved")),
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

/// The list of copies: one of the claim's volume.
fn copied(uploader: &str) -> Value {
    json!([{"metadata": {"name": "b-1", "annotations": {"velero.io/pvc-name": "data"}},
        "spec": {"pod": {"namespace": "shop", "name": "web"}, "volume": "d", "uploaderType": uploader},
        "status": {"phase": "Completed", "snapshotID": "abc", "progress": {"totalBytes": 7}}}])
}

/// A backup with that list; PodVolumeRestores end with `status` as soon as they exist.
async fn with_copies(spec: Value, uploader: &str, status: Value) -> Setting {
    with_copies_and(spec, uploader, status, Vec::new()).await
}

/// A restore of a backup with copies, as by [`with_copies`], with more items.
async fn with_copies_and(spec: Value, uploader: &str, status: Value, more: Vec<Held>) -> Setting {
    let held: Vec<Held> = items().into_iter().chain(more).collect();
    let mut setting = Setting::holding(spec, &held).await;
    setting.movers.image = "example.com/lifeboat:1".to_owned();
    let info = info(
        "PodVolumeBackup",
        &json!({"pvbInfo": {"podNamespace": "shop", "podName": "web",
        "volumeName": "d", "snapshotHandle": "abc"}}),
    );
    setting.put(&key("info"), &info).await;
    setting.put(&BackupFiles::new("b").unwrap().volume_copies(), &copied(uploader)).await;
    let server = setting.server.clone();
    setting.on_request(move |_| {
        for path in server.paths("/podvolumerestores/") {
            server.change(&path, &json!({"status": status}));
        }
    });
    setting
}

fn filled(setting: &Setting) -> Vec<Value> {
    let paths = setting.server.paths("/podvolumerestores/");
    paths.iter().filter_map(|path| setting.object(path)).collect()
}

async fn errors(setting: &Setting) -> Vec<String> {
    setting.results().await.errors.all().map(|(_, message)| message.to_owned()).collect()
}

#[tokio::test]
async fn a_pod_waits_for_the_data_of_its_volumes() {
    let spec = json!({"uploaderConfig": {"writeSparseFiles": false}});
    let setting = with_copies(spec, "restic", json!({"phase": "Completed"})).await;
    let status = setting.run().await;
    assert_eq!(status["phase"], "Completed", "{status} {:?}", errors(&setting).await);
    let pod = setting.object("/api/v1/namespaces/shop/pods/web").unwrap();
    let container = &pod["spec"]["initContainers"][0];
    assert_eq!(container["name"], "restore-wait");
    assert_eq!(container["args"], json!(["restore-wait", "ru"]));
    assert_eq!(container["volumeMounts"], json!([{"name": "d", "mountPath": "/restores/d"}]));
    assert_eq!(pod["metadata"]["annotations"], Value::Null, "no pod is created with the mark");
    let objects = filled(&setting);
    assert_eq!(objects.len(), 1);
    assert_eq!(objects[0]["spec"]["snapshotID"], "abc");
    assert_eq!(objects[0]["spec"]["uploaderSettings"], json!({"WriteSparseFiles": "false"}));
    assert_eq!(objects[0]["metadata"]["labels"]["velero.io/restore-uid"], "ru");
    let made: Vec<Value> = setting.get(&super::setting::files().volume_info()).await;
    assert_eq!(made[0]["restoreMethod"], "PodVolumeRestore");
}

#[tokio::test]
async fn all_pods_that_share_a_claim_wait_and_it_is_filled_once() {
    let volumes = json!([{"name": "shared", "persistentVolumeClaim": {"claimName": "data"}}]);
    let other = ("/v1/pods", "shop/worker", json!({"spec": {"containers": [], "volumes": volumes}}));
    let setting = with_copies_and(json!({}), "restic", json!({"phase": "Completed"}), vec![other]).await;
    let status = setting.run().await;
    assert_eq!(status["phase"], "Completed", "{status} {:?}", errors(&setting).await);
    for (pod, volume) in [("web", "d"), ("worker", "shared")] {
        let pod = setting.object(&format!("/api/v1/namespaces/shop/pods/{pod}")).unwrap();
        let container = &pod["spec"]["initContainers"][0];
        assert_eq!(container["args"], json!(["restore-wait", "ru"]), "{pod}");
        assert_eq!(container["volumeMounts"][0]["name"], volume);
    }
    assert_eq!(filled(&setting).len(), 1);
}

#[tokio::test]
async fn a_claim_is_filled_for_the_pod_that_is_restored_though_it_was_copied_with_another() {
    let volumes = json!([{"name": "shared", "persistentVolumeClaim": {"claimName": "data"}}]);
    let spec = json!({"containers": [], "volumes": volumes});
    let other = ("/v1/pods", "shop/worker", json!({"metadata": {"labels": {"app": "worker"}}, "spec": spec}));
    let wanted = json!({"labelSelector": {"matchLabels": {"app": "worker"}}});
    let setting = with_copies_and(wanted, "restic", json!({"phase": "Completed"}), vec![other]).await;
    let status = setting.run().await;
    assert_eq!(status["phase"], "Completed", "{status} {:?}", errors(&setting).await);
    let objects = filled(&setting);
    assert_eq!(objects.len(), 1);
    let spec = &objects[0]["spec"];
    assert_eq!((&spec["pod"]["name"], &spec["volume"]), (&json!("worker"), &json!("shared")));
}

#[tokio::test]
async fn data_goes_into_another_namespace_from_the_repository_of_its_own() {
    let spec = json!({"namespaceMapping": {"shop": "copy"}});
    let setting = with_copies(spec, "restic", json!({"phase": "Completed"})).await;
    assert_eq!(setting.run().await["phase"], "Completed");
    let spec = filled(&setting)[0]["spec"].clone();
    assert_eq!((&spec["sourceNamespace"], &spec["pod"]["namespace"]), (&json!("shop"), &json!("copy")));
}

#[tokio::test]
async fn a_volume_that_could_not_be_filled_is_named() {
    let setting =
        with_copies(json!({}), "restic", json!({"phase": "Failed", "message": "wrong password"})).await;
    assert_eq!(setting.run().await["phase"], "PartiallyFailed");
    let errors = errors(&setting).await;
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].starts_with("volume d of pod shop/web was not restored: wrong password"), "{errors:?}");
}

#[rstest]
#[case::kopia("kopia", None, "Velero's kopia wrote")]
#[case::a_claim_that_is_there("restic",
    Some(("persistentvolumeclaims/data", json!({"spec": {"volumeName": "old"}}))), "claim data existed before")]
#[case::a_pod_of_others("restic", Some(("pods/web", json!({"spec": {"containers": []}}))), "this restore did not create")]
#[tokio::test]
async fn nobody_writes_into_what_is_not_new(
    #[case] uploader: &str,
    #[case] there: Option<(&str, Value)>,
    #[case] message: &str,
) {
    let setting = with_copies(json!({}), uploader, json!({"phase": "Completed"})).await;
    if let Some((path, mut object)) = there {
        let name = path.rsplit_once('/').unwrap().1;
        object["metadata"] = json!({"name": name, "namespace": "shop"});
        let path = format!("/api/v1/namespaces/shop/{path}");
        setting.server.put(&path, object);
    }
    assert_eq!(setting.run().await["phase"], "PartiallyFailed");
    assert_eq!(filled(&setting), Vec::<Value>::new());
    let errors = errors(&setting).await;
    assert!(errors.iter().any(|error| error.contains(message)), "{errors:?}");
}

#[tokio::test]
async fn a_restart_makes_no_second_object_for_a_volume() {
    let setting = with_copies(json!({}), "restic", json!({"phase": "Completed"})).await;
    assert_eq!(setting.run().await["phase"], "Completed");
    setting.set_status(super::setting::RESTORE, json!({"phase": "InProgress"}));
    assert_eq!(setting.run().await["phase"], "Completed");
    assert_eq!(filled(&setting).len(), 1);
}
