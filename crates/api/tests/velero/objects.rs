//! Objects as Velero's own Go types, its server and plugins write them: each is decoded and encoded again without a
//! change.

use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::{
    Backup, BackupHooks, BackupPhase, BackupRepository, BackupStatus, BackupStorageLocation, DataDownload,
    DataUpload, DeleteBackupRequest, DownloadRequest, Metadata, PodVolumeBackup, PodVolumeRestore, Restore,
    RestorePhase, Schedule, ServerStatusRequest, UploaderType, VolumeOperationProgress, VolumePluginBackup,
    VolumePluginRestore, VolumeSnapshotLocation,
};
use rstest::rstest;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const ZERO: &str = include_str!("../fixtures/velero/zero.json");
const FULL: &str = include_str!("../fixtures/velero/full.json");

#[rstest]
#[case::nothing_set(ZERO)]
#[case::everything_set(FULL)]
fn every_kind_comes_back_as_go_wrote_it(#[case] fixture: &str) {
    let objects: Vec<Value> = serde_json::from_str(fixture).expect("a list of objects");
    assert_eq!(objects.len(), 13, "every kind of Velero 1.18.3");
    for object in objects {
        match object["kind"].as_str().expect("a kind") {
            "Backup" => round_trip::<Backup>(object),
            "Restore" => round_trip::<Restore>(object),
            "Schedule" => round_trip::<Schedule>(object),
            "BackupStorageLocation" => round_trip::<BackupStorageLocation>(object),
            "VolumeSnapshotLocation" => round_trip::<VolumeSnapshotLocation>(object),
            "DeleteBackupRequest" => round_trip::<DeleteBackupRequest>(object),
            "DownloadRequest" => round_trip::<DownloadRequest>(object),
            "ServerStatusRequest" => round_trip::<ServerStatusRequest>(object),
            "PodVolumeBackup" => round_trip::<PodVolumeBackup>(object),
            "PodVolumeRestore" => round_trip::<PodVolumeRestore>(object),
            "BackupRepository" => round_trip::<BackupRepository>(object),
            "DataUpload" => round_trip::<DataUpload>(object),
            "DataDownload" => round_trip::<DataDownload>(object),
            kind => unreachable!("no test for {kind}"),
        }
    }
}

#[test]
fn objects_of_a_genuine_velero_come_back_as_they_were() {
    let parse = |text| serde_json::from_str::<Value>(text).expect("an object");
    round_trip::<Backup>(parse(include_str!("../fixtures/velero/golden-backup.json")));
    round_trip::<Backup>(parse(include_str!("../fixtures/velero/golden-velero-backup.json")));
    round_trip::<Restore>(parse(include_str!("../fixtures/velero/golden-restore.json")));
}

#[test]
fn what_a_genuine_velero_wrote_means_the_same_here() {
    let backup: Backup =
        serde_json::from_str(include_str!("../fixtures/velero/golden-backup.json")).expect("a Backup");
    assert_eq!(backup.phase(), &BackupPhase::Completed);
    assert_eq!(backup.spec.ttl, Some(GoDuration::from_secs(30 * 24 * 3_600)));
    assert_eq!(backup.spec.ordered_resources.expect("an order")["configmaps"], "golden/settings");
    let restore: Restore =
        serde_json::from_str(include_str!("../fixtures/velero/golden-restore.json")).expect("a Restore");
    assert!(restore.phase().is_terminal());
    assert_eq!(restore.status.and_then(|status| status.warnings), Some(1));
}

#[test]
fn what_go_sends_for_nothing_reads_as_unset() {
    let backup: Backup = object(&json!({
        "spec": { "ttl": "0s", "csiSnapshotTimeout": "0s", "itemOperationTimeout": "0s", "hooks": {}, "metadata": {} },
        "status": {},
    }));
    assert_eq!(backup.phase(), &BackupPhase::New);
    assert_eq!(GoDuration::set(backup.spec.ttl), None);
    assert_eq!(backup.spec.hooks, Some(BackupHooks::default()));
    assert_eq!(backup.spec.metadata, Some(Metadata::default()));
    assert_eq!(backup.status, Some(BackupStatus::default()));
}

#[test]
fn null_reads_as_unset() {
    let restore: Restore = object(&json!({
        "spec": {
            "includedNamespaces": null, "labelSelector": null, "existingResourcePolicy": null, "hooks": null,
            "itemOperationTimeout": null, "uploaderConfig": { "writeSparseFiles": null },
        },
        "status": null,
    }));
    assert_eq!(restore.spec.included_namespaces, None);
    assert_eq!(restore.phase(), &RestorePhase::New);
}

#[test]
fn an_unknown_phase_does_not_hide_the_object() {
    let backup: Backup = object(&json!({ "spec": {}, "status": { "phase": "Hibernating", "errors": 3 } }));
    assert_eq!(backup.phase(), &BackupPhase::Other("Hibernating".to_owned()));
    assert!(!backup.phase().is_terminal());
    assert_eq!(backup.status.and_then(|status| status.errors), Some(3));
}

#[test]
fn a_wrong_duration_is_named_in_the_error() {
    let wrong = json!({ "metadata": { "name": "a" }, "spec": { "ttl": "30 days" } });
    let error = serde_json::from_value::<Backup>(wrong).expect_err("no duration").to_string();
    assert!(error.contains("\"30 days\""), "{error}");
}

#[test]
fn the_empty_uploader_type_of_old_objects_is_kept() {
    let spec = json!({
        "node": "n", "pod": {}, "volume": "v", "backupStorageLocation": "b", "repoIdentifier": "", "uploaderType": ""
    });
    let backup: PodVolumeBackup = object(&json!({ "spec": spec }));
    assert_eq!(backup.spec.uploader_type, Some(UploaderType::Unset));
}

#[rstest]
#[case::as_the_design_spells_it(json!({ "TotalBytes": 10, "BytesDone": 4 }))]
#[case::as_velero_spells_it(json!({ "totalBytes": 10, "bytesDone": 4 }))]
#[case::both(json!({ "totalBytes": 10, "bytesDone": 4, "TotalBytes": 10, "BytesDone": 4 }))]
#[case::one_behind_the_other(json!({ "totalBytes": 10, "bytesDone": 1, "TotalBytes": 8, "BytesDone": 4 }))]
fn a_plugins_progress_is_read_in_both_spellings(#[case] progress: Value) {
    let object = json!({
        "apiVersion": "velero.io/v1",
        "kind": "VolumePluginBackup",
        "metadata": { "name": "snap-1", "namespace": "lifeboat" },
        "spec": { "volume": "pvc-1", "backup": "b", "plugin": "example.com/p", "pluginSpecific": { "pool": "a" } },
        "status": { "phase": "Uploading", "snapshotID": "snap-1", "progress": progress },
    });
    let backup: VolumePluginBackup = serde_json::from_value(object.clone()).expect("a VolumePluginBackup");
    let read = backup.status.as_ref().and_then(|status| status.progress.clone()).expect("progress");
    assert_eq!((read.bytes_done(), read.total_bytes()), (Some(4), Some(10)));
    assert!(!backup.has_ended());
    round_trip::<VolumePluginBackup>(object);
}

#[test]
fn progress_of_ours_is_written_in_both_spellings() {
    let written = serde_json::to_value(VolumeOperationProgress::new(4, 10)).expect("JSON");
    assert_eq!(written, json!({ "totalBytes": 10, "bytesDone": 4, "TotalBytes": 10, "BytesDone": 4 }));
}

#[rstest]
#[case::nothing_said(json!({}), false)]
#[case::at_work(json!({ "phase": "InProgress" }), false)]
#[case::completed(json!({ "phase": "Completed" }), true)]
#[case::failed_in_another_spelling(json!({ "phase": "FAILED" }), true)]
#[case::own_word_with_an_end(json!({ "phase": "Done", "completionTimestamp": "2026-11-15T12:00:00Z" }), true)]
fn a_plugins_work_has_ended_when_it_says_so(#[case] status: Value, #[case] ended: bool) {
    assert_eq!(object::<VolumePluginBackup>(&json!({ "spec": {}, "status": status })).has_ended(), ended);
    assert_eq!(object::<VolumePluginRestore>(&json!({ "spec": {}, "status": status })).has_ended(), ended);
}

fn object<K: DeserializeOwned>(parts: &Value) -> K {
    let mut object = parts.clone();
    object["metadata"] = json!({ "name": "sample", "namespace": "lifeboat" });
    serde_json::from_value(object).expect("an object of the kind")
}

fn round_trip<K: Serialize + DeserializeOwned>(object: Value) {
    let decoded: K = serde_json::from_value(object.clone()).expect("an object of the kind");
    let encoded = serde_json::to_value(&decoded).expect("JSON");
    assert_eq!(encoded, without_nulls(object));
}

/// Go writes null for some things that are not set; we leave them out.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name, without_nulls(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}
