//! Volumes that are made from snapshots of a volume plugin: upstream's rules, restarts, and every fault of a plugin.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lifeboat_archive::BackupFiles;
use lifeboat_plan::velero::restore::native::{ORIGINAL_NAME, other_name};
use lifeboat_plan::velero::volume_plugin::{OURS, PROVIDER_VOLUME};
use lifeboat_plugin::ActionError;
use lifeboat_plugin::volume::VolumeProgress;
use rstest::rstest;
use serde_json::{Value, json};

use super::setting::{GROUP, Held, Setting, files};
use crate::testing::volumes::{FakeSnapshotter, at_once, failing, never};

const VOLUME: &str = "/api/v1/persistentvolumes/pv";
const CLAIM: &str = "/api/v1/namespaces/shop/persistentvolumeclaims/data";
const MADE: &str = "CreateVolumeFromSnapshot snap-1 z1 fast 7";

/// A claim with its volume, and an object that has nothing to do with them.
fn items() -> Vec<Held> {
    let volume = json!({"spec": {"persistentVolumeReclaimPolicy": "Delete",
        "csi": {"driver": "fake", "volumeHandle": "old"},
        "claimRef": {"namespace": "shop", "name": "data", "uid": "old"}}});
    vec![
        ("/v1/namespaces", "shop", json!({})),
        ("/v1/configmaps", "shop/a", json!({"data": {"a": "1"}})),
        (
            "/v1/persistentvolumeclaims",
            "shop/data",
            json!({"spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}}),
        ),
        ("/v1/persistentvolumes", "pv", volume),
    ]
}

async fn setting(spec: Value, fake: FakeSnapshotter) -> Setting {
    let mut setting = Setting::holding(spec, &items()).await;
    setting.snapshotter = Some(fake);
    let backup = BackupFiles::new("b").unwrap();
    let info = json!([{"pvcName": "data", "pvcNamespace": "shop", "pvName": "pv", "backupMethod": "NativeSnapshot",
        "result": "succeeded"}]);
    setting.put(&backup.volume_info(), &info).await;
    let snapshot = json!([{"spec": {"persistentVolumeName": "pv", "location": "main", "volumeType": "fast",
        "volumeAZ": "z1", "volumeIOPS": 7}, "status": {"providerSnapshotID": "snap-1", "phase": "Completed"}}]);
    setting.put(&backup.volume_snapshots(), &snapshot).await;
    let location = json!({"apiVersion": "velero.io/v1", "kind": "VolumeSnapshotLocation",
        "metadata": {"name": "main"}, "spec": {"provider": "fake"}});
    hold(&setting, &format!("{GROUP}/volumesnapshotlocations/main"), location);
    setting
}

fn hold(setting: &Setting, path: &str, object: Value) {
    setting.server.put(path, object);
}

fn calls(setting: &Setting) -> Vec<String> {
    setting.snapshotter.as_ref().unwrap().calls()
}

/// The objects of operations.
fn operations(setting: &Setting) -> Vec<Value> {
    let found = setting.server.paths("/volumepluginrestores/");
    found.iter().filter_map(|path| setting.object(path)).collect()
}

async fn errors(setting: &Setting) -> String {
    let errors = setting.results().await.errors;
    errors.all().map(|(_, words)| words.to_owned()).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_volume_is_made_from_its_snapshot_and_its_claim_gets_it() {
    let setting = setting(json!({}), FakeSnapshotter::default()).await;
    let status = setting.run().await;
    assert_eq!(status["phase"], "Completed", "{}", errors(&setting).await);
    assert_eq!(calls(&setting), [MADE, "SetVolumeID vol-snap-1"]);
    let volume = setting.object(VOLUME).unwrap();
    assert_eq!(volume["spec"]["csi"]["volumeHandle"], "vol-snap-1");
    assert_eq!(volume["spec"]["claimRef"], json!({"namespace": "shop", "name": "data"}));
    assert_eq!(setting.object(CLAIM).unwrap()["spec"]["volumeName"], "pv");
    let operations = operations(&setting);
    assert_eq!(operations.len(), 1, "{operations:?}");
    assert_eq!(operations[0]["status"]["phase"], "Completed");
    assert_eq!(operations[0]["status"]["volumeID"], "pv");
    assert_eq!(operations[0]["spec"]["snapshotID"], "snap-1");
    let infos: Value = setting.get(&files().volume_info()).await;
    assert_eq!(infos[0]["restoreMethod"], "NativeSnapshot");
    assert_eq!(infos[0]["nativeSnapshotInfo"]["snapshotHandle"], "snap-1");
    assert_eq!(infos[0]["pvcName"], "data");
}

#[tokio::test]
async fn without_data_the_volume_is_restored_as_it_was() {
    let setting = setting(json!({"restorePVs": false}), FakeSnapshotter::default()).await;
    assert_eq!(setting.run().await["phase"], "Completed");
    assert_eq!(calls(&setting), Vec::<String>::new());
    assert_eq!(setting.object(VOLUME).unwrap()["spec"]["csi"]["volumeHandle"], "old");
}

fn there(labels: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv", "labels": labels,
        "creationTimestamp": "2026-11-16T01:00:00Z"}, "spec": {"csi": {"driver": "fake", "volumeHandle": "there"}}})
}

#[tokio::test]
async fn a_volume_that_is_in_the_cluster_stays_and_none_is_made() {
    let setting = setting(json!({}), FakeSnapshotter::default()).await;
    hold(&setting, VOLUME, there(&json!({})));
    setting.run().await;
    assert_eq!(calls(&setting), Vec::<String>::new());
    assert_eq!(setting.object(VOLUME).unwrap()["spec"]["csi"]["volumeHandle"], "there");
    let warnings = setting.results().await.warnings;
    assert!(warnings.all().any(|(_, words)| words.contains("no volume was created")));
}

#[tokio::test]
async fn a_volume_whose_claim_moves_gets_another_name_where_its_own_is_taken() {
    let spec = json!({"namespaceMapping": {"shop": "copy"}});
    let setting = setting(spec, FakeSnapshotter::default()).await;
    hold(&setting, VOLUME, there(&json!({})));
    let status = setting.run().await;
    assert_eq!(status["phase"], "Completed", "{}", errors(&setting).await);
    let name = other_name("ru", "pv");
    let volume = setting.object(&format!("/api/v1/persistentvolumes/{name}")).unwrap();
    assert_eq!(volume["metadata"]["annotations"][ORIGINAL_NAME], "pv");
    assert_eq!(volume["spec"]["claimRef"]["namespace"], "copy");
    assert_eq!(volume["spec"]["csi"]["volumeHandle"], "vol-snap-1");
    let claim = setting.object("/api/v1/namespaces/copy/persistentvolumeclaims/data").unwrap();
    assert_eq!(claim["spec"]["volumeName"], name.as_str());
    assert_eq!(setting.object(VOLUME).unwrap()["spec"]["csi"]["volumeHandle"], "there");
}

#[tokio::test]
async fn a_snapshotter_may_give_the_volume_another_name() {
    let other = at_once(|(mut volume, _): (Value, String)| {
        volume["metadata"]["name"] = json!("theirs");
        Ok(volume)
    });
    let fake = FakeSnapshotter { set_volume_id: Some(other), ..FakeSnapshotter::default() };
    let setting = setting(json!({}), fake).await;
    assert_eq!(setting.run().await["phase"], "Completed", "{}", errors(&setting).await);
    assert!(setting.object("/api/v1/persistentvolumes/theirs").is_some());
    assert_eq!(setting.object(CLAIM).unwrap()["spec"]["volumeName"], "theirs");
}

fn other_kind() -> FakeSnapshotter {
    let set = at_once(|_: (Value, String)| {
        Ok(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pv"}}))
    });
    FakeSnapshotter { set_volume_id: Some(set), ..FakeSnapshotter::default() }
}

#[rstest]
#[case::create_fails(FakeSnapshotter { create_volume: Some(failing("out of quota")), ..Default::default() }, "out of quota")]
#[case::create_hangs(FakeSnapshotter { create_volume: Some(never()), ..Default::default() }, "did not answer within 1s")]
#[case::empty_name(FakeSnapshotter { create_volume: Some(at_once(|_| Ok(String::new()))), ..Default::default() }, "empty ID")]
#[case::set_fails(FakeSnapshotter { set_volume_id: Some(failing("what volume")), ..Default::default() },
    "volume 'vol-snap-1' was created from snapshot 'snap-1', but is not used: what volume")]
#[case::set_other_kind(other_kind(), "not a PersistentVolume")]
#[tokio::test]
async fn a_fault_of_the_plugin_hits_its_volume_and_nothing_else(
    #[case] fake: FakeSnapshotter,
    #[case] words: &str,
) {
    let setting = setting(json!({"itemOperationTimeout": "1s"}), fake).await;
    assert_eq!(setting.run().await["phase"], "PartiallyFailed");
    let said = errors(&setting).await;
    assert!(said.contains("persistentvolumes/pv") && said.contains(words), "{said}");
    assert!(setting.object(VOLUME).is_none());
    assert!(setting.object("/api/v1/namespaces/shop/configmaps/a").is_some());
    // No empty volume takes the place of the data.
    assert_eq!(setting.object(CLAIM).unwrap()["spec"]["volumeName"], "pv");
    let operations = operations(&setting);
    assert_eq!(operations.len(), 1, "{operations:?}");
    assert!(!operations[0]["status"]["completionTimestamp"].is_null(), "{operations:?}");
}

#[rstest]
#[case::no_plugin("plugin", "no VolumeSnapshotter plugin named 'velero.io/fake' is installed")]
#[case::no_location("location", "volume snapshot location 'main' does not exist")]
#[case::not_listed("listed", "does not have one of it")]
#[case::never_made("made", "never made")]
#[case::garbage("garbage", "cannot read")]
#[tokio::test]
async fn what_is_missing_is_named_and_the_rest_is_restored(#[case] missing: &str, #[case] words: &str) {
    let mut setting = setting(json!({}), FakeSnapshotter::default()).await;
    let list = BackupFiles::new("b").unwrap().volume_snapshots();
    match missing {
        "plugin" => setting.snapshotter = None,
        "location" => {
            setting.server.remove(&format!("{GROUP}/volumesnapshotlocations/main"));
        }
        "listed" => setting.put(&list, &json!([])).await,
        "made" => setting.put(&list, &json!([{"spec": {"persistentVolumeName": "pv"}, "status": {}}])).await,
        _ => setting.store.put(&list, "garbage").await.unwrap(),
    }
    assert_eq!(setting.run().await["phase"], "PartiallyFailed");
    let said = errors(&setting).await;
    assert!(said.contains("persistentvolumes/pv") && said.contains(words), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(setting.object("/api/v1/namespaces/shop/configmaps/a").is_some());
}

#[tokio::test]
async fn a_cancelled_restore_does_not_wait_for_its_plugin() {
    let token = tokio_util::sync::CancellationToken::new();
    let cancel = token.clone();
    let hang = Arc::new(move |_| {
        cancel.cancel();
        Box::pin(std::future::pending()) as futures::future::BoxFuture<'static, Result<String, ActionError>>
    });
    let fake = FakeSnapshotter { create_volume: Some(hang), ..FakeSnapshotter::default() };
    let mut setting = setting(json!({}), fake).await;
    setting.cancel = token;
    let status = setting.run().await;
    assert_eq!(status["phase"], "Failed");
    let operations = operations(&setting);
    assert_eq!(operations[0]["status"]["phase"], "Failed", "{operations:?}");
    assert!(operations[0]["status"]["message"].as_str().unwrap().contains("cancelled"), "{operations:?}");
}

/// An object that an earlier attempt left.
fn left(setting: &Setting, phase: &str, volume: Option<&str>) {
    let object = json!({"apiVersion": "velero.io/v1", "kind": "VolumePluginRestore", "metadata": {"name": "left",
            "namespace": "lifeboat", "labels": {OURS: "server", "velero.io/restore-uid": "ru"},
            "annotations": volume.map(|volume| json!({PROVIDER_VOLUME: volume})).unwrap_or_default()},
        "spec": {"snapshotID": "snap-1", "backup": "b", "plugin": "velero.io/fake"},
        "status": {"phase": phase, "volumeID": "pv", "startTimestamp": "2026-11-16T01:00:00Z"}});
    hold(setting, &format!("{GROUP}/volumepluginrestores/left"), object);
}

#[tokio::test]
async fn a_volume_that_an_earlier_attempt_made_is_not_made_again() {
    let setting = setting(json!({}), FakeSnapshotter::default()).await;
    left(&setting, "Completed", Some("vol-9"));
    assert_eq!(setting.run().await["phase"], "Completed", "{}", errors(&setting).await);
    assert_eq!(calls(&setting), ["SetVolumeID vol-9"]);
    assert_eq!(setting.object(VOLUME).unwrap()["spec"]["csi"]["volumeHandle"], "vol-9");
}

#[tokio::test]
async fn a_volume_that_an_earlier_attempt_restored_is_gone_on_with() {
    let setting = setting(json!({}), FakeSnapshotter::default()).await;
    hold(&setting, VOLUME, there(&json!({"velero.io/restore-name": "r"})));
    assert_eq!(setting.run().await["phase"], "Completed", "{}", errors(&setting).await);
    assert_eq!(calls(&setting), Vec::<String>::new());
}

#[tokio::test]
async fn a_call_of_unknown_end_is_made_again_and_said() {
    let setting = setting(json!({}), FakeSnapshotter::default()).await;
    left(&setting, "InProgress", None);
    assert_eq!(setting.run().await["phase"], "PartiallyFailed");
    assert_eq!(calls(&setting).len(), 2);
    let said = errors(&setting).await;
    assert!(said.contains("snap-1") && said.contains("the first one may exist too"), "{said}");
    assert!(setting.object(VOLUME).is_some());
}

#[rstest]
#[case::ended("Completed")]
#[case::open("Uploading")]
#[tokio::test]
async fn a_plugins_own_object_that_does_not_name_its_volume_is_a_call_of_unknown_end(#[case] phase: &str) {
    let setting = setting(json!({}), FakeSnapshotter::default()).await;
    let object = json!({"apiVersion": "velero.io/v1", "kind": "VolumePluginRestore", "metadata": {"name": "own",
            "namespace": "lifeboat", "labels": {"velero.io/restore-uid": "ru"}},
        "spec": {"snapshotID": "snap-1", "backup": "b", "plugin": "velero.io/fake"},
        "status": {"phase": phase, "startTimestamp": "2026-11-16T01:00:00Z"}});
    hold(&setting, &format!("{GROUP}/volumepluginrestores/own"), object);
    assert_eq!(setting.run().await["phase"], "PartiallyFailed");
    let said = errors(&setting).await;
    assert!(said.contains("the first one may exist too"), "{said}");
}

#[tokio::test]
async fn a_volume_is_not_taken_for_another_one_of_the_same_snapshot() {
    let setting = setting(json!({}), FakeSnapshotter::default()).await;
    let object = json!({"apiVersion": "velero.io/v1", "kind": "VolumePluginRestore", "metadata": {"name": "own",
            "namespace": "lifeboat", "labels": {"velero.io/restore-uid": "ru"},
            "annotations": {PROVIDER_VOLUME: "vol-of-other", "lifeboat.io/persistent-volume": "other"}},
        "spec": {"snapshotID": "snap-1", "backup": "b", "plugin": "velero.io/fake"},
        "status": {"phase": "Completed", "startTimestamp": "2026-11-16T01:00:00Z"}});
    hold(&setting, &format!("{GROUP}/volumepluginrestores/own"), object);
    assert_eq!(setting.run().await["phase"], "Completed", "{}", errors(&setting).await);
    assert_eq!(setting.object(VOLUME).unwrap()["spec"]["csi"]["volumeHandle"], "vol-snap-1");
}

/// A snapshotter whose call returns at once, while the volume is still being created.
fn in_background(end: &'static str) -> FakeSnapshotter {
    let asked = AtomicUsize::new(0);
    let progress = at_once(move |_| {
        let turn = asked.fetch_add(1, Ordering::Relaxed);
        let phase = if turn < 3 { String::new() } else { end.to_owned() };
        let (bytes_done, total_bytes) = (if turn < 3 { 5 } else { 10 }, 10);
        Ok(Some(VolumeProgress {
            phase,
            message: "disk".into(),
            bytes_done,
            total_bytes,
            ..VolumeProgress::default()
        }))
    });
    FakeSnapshotter { progress: Some(progress), ..FakeSnapshotter::default() }
}

#[rstest]
#[case::well("Completed", "Completed")]
#[case::badly("Failed", "PartiallyFailed")]
#[tokio::test]
async fn what_goes_on_in_the_background_is_waited_for(#[case] end: &'static str, #[case] phase: &str) {
    let setting = setting(json!({}), in_background(end)).await;
    assert_eq!(setting.run().await["phase"], phase, "{}", errors(&setting).await);
    assert!(setting.phases().contains(&"WaitingForPluginOperations".to_owned()), "{:?}", setting.phases());
    let operations = operations(&setting);
    assert_eq!(operations[0]["status"]["phase"], end);
    if phase == "PartiallyFailed" {
        assert!(errors(&setting).await.contains("volume pv was not created from snapshot 'snap-1'"));
    }
}

#[tokio::test]
async fn what_never_ends_is_ended_by_its_time() {
    let fake = in_background("");
    let setting = setting(json!({"itemOperationTimeout": "1s"}), fake).await;
    assert_eq!(setting.run().await["phase"], "PartiallyFailed");
    assert!(errors(&setting).await.contains("spec.itemOperationTimeout"));
    assert_eq!(operations(&setting)[0]["status"]["phase"], "Failed");
}

/// A plugin's own object of a volume that an earlier attempt made, and that failed while no server looked.
fn failed_meanwhile(setting: &Setting) {
    let object = json!({"apiVersion": "velero.io/v1", "kind": "VolumePluginRestore", "metadata": {"name": "own",
            "namespace": "lifeboat", "labels": {"velero.io/restore-uid": "ru"},
            "annotations": {PROVIDER_VOLUME: "vol-1", "lifeboat.io/persistent-volume": "pv"}},
        "spec": {"snapshotID": "snap-1", "backup": "b", "plugin": "velero.io/fake"},
        "status": {"phase": "Failed", "message": "the disk is full"}});
    hold(setting, &format!("{GROUP}/volumepluginrestores/own"), object);
}

#[tokio::test]
async fn what_failed_while_no_server_looked_is_told_by_the_one_that_goes_on_with_the_items() {
    let setting = setting(json!({}), FakeSnapshotter::default()).await;
    hold(&setting, VOLUME, there(&json!({"velero.io/restore-name": "r"})));
    failed_meanwhile(&setting);
    assert_eq!(setting.run().await["phase"], "PartiallyFailed");
    let said = errors(&setting).await;
    assert!(said.contains("volume pv was not created from snapshot 'snap-1': the disk is full"), "{said}");
    assert_eq!(calls(&setting), Vec::<String>::new());
}

#[tokio::test]
async fn what_failed_while_no_server_looked_is_told_by_the_one_that_waits() {
    let setting = setting(json!({}), FakeSnapshotter::default()).await;
    failed_meanwhile(&setting);
    let path = format!("{GROUP}/restores/r");
    setting.set_status(&path, json!({"phase": "WaitingForPluginOperations"}));
    assert_eq!(setting.run().await["phase"], "PartiallyFailed");
    assert!(errors(&setting).await.contains("the disk is full"));
}
