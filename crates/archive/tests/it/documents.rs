//! The files beside the archive, read and written again: the same JSON.

use std::fmt::Write as _;

use lifeboat_api::velero::Backup;
use lifeboat_archive::documents::{
    self, BackupOperation, BackupVolumeInfo, NativeSnapshot, ResourceList, RestoreAction, RestoreOperation,
    RestoreVolumeInfo, Results,
};
use rstest::rstest;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::support;

fn again<T: DeserializeOwned + Serialize>(stored: &[u8]) -> bytes::Bytes {
    documents::encode(&documents::decode::<T>(stored).unwrap()).unwrap()
}

type Again = fn(&[u8]) -> bytes::Bytes;

#[rstest]
#[case::results("backups/golden/golden-results.gz", again::<Results>)]
#[case::resource_list("backups/golden/golden-resource-list.json.gz", again::<ResourceList>)]
#[case::volume_info("backups/golden/golden-volumeinfo.json.gz", again::<Vec<BackupVolumeInfo>>)]
#[case::operations("backups/golden/golden-itemoperations.json.gz", again::<Vec<BackupOperation>>)]
#[case::snapshots("backups/golden/golden-volumesnapshots.json.gz", again::<Option<Vec<NativeSnapshot>>>)]
#[case::pod_volumes("backups/golden/golden-podvolumebackups.json.gz", again::<Option<Vec<Value>>>)]
#[case::restore_results("restores/golden-back/restore-golden-back-results.gz", again::<Results>)]
#[case::restore_list("restores/golden-back/restore-golden-back-resource-list.json.gz", again::<ResourceList>)]
#[case::restore_volumes("restores/golden-back/golden-back-volumeinfo.json.gz", again::<Vec<RestoreVolumeInfo>>)]
#[case::restore_operations(
    "restores/golden-back/restore-golden-back-itemoperations.json.gz", again::<Vec<RestoreOperation>>
)]
fn a_document_of_velero_is_written_byte_for_byte(#[case] key: &str, #[case] again: Again) {
    let stored = support::file(key);
    let (ours, theirs) = (support::plain(&again(&stored)), support::plain(&stored));
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    assert_eq!(text(&ours), text(&theirs));
}

#[test]
fn the_stored_backup_is_read_and_written_with_the_same_values() {
    let stored = support::file("backups/golden/velero-backup.json");
    let backup: Backup = serde_json::from_slice(&stored).unwrap();
    let ours: Value = serde_json::from_slice(&documents::encode_backup(&backup).unwrap()).unwrap();
    assert_eq!(ours["kind"], "Backup");
    assert_eq!(ours["apiVersion"], "velero.io/v1");
    let theirs: Value = serde_json::from_slice(&stored).unwrap();
    assert_eq!(ours["status"], theirs["status"]);
    assert_eq!(ours["metadata"], theirs["metadata"]);
}

#[test]
fn nothing_is_stored_as_null_where_upstream_does() {
    assert_eq!(support::plain(&documents::encode_null().unwrap()), b"null\n");
    let stored = support::file("backups/golden/golden-volumesnapshots.json.gz");
    assert_eq!(documents::decode_list::<NativeSnapshot>(&stored).unwrap(), []);
}

#[test]
fn a_resource_list_is_sorted_by_type_and_name() {
    let mut list = ResourceList::default();
    list.add("v1", "Pod", Some("b"), "x");
    list.add("v1", "Pod", Some("a"), "y");
    list.add("apps/v1", "Deployment", Some("a"), "z");
    list.add_restored("v1", "Namespace", None, "a", RestoreAction::Created);
    let json = serde_json::to_string(&list).unwrap();
    let expected = r#"{"apps/v1/Deployment":["a/z"],"v1/Namespace":["a(created)"],"v1/Pod":["a/y","b/x"]}"#;
    assert_eq!(json, expected);
}

/// A list of a few kilobytes that would need gigabytes.
#[rstest]
#[case::empty_objects("{},", 64 << 20)]
#[case::small_maps(r#"{"pvInfo":{"labels":{"":""}}},"#, 64 << 20)]
#[case::small_arrays("[],", 64 << 20)]
#[case::nothing("                ", 64 << 20)]
fn a_list_that_is_small_in_storage_and_large_in_memory_is_refused(
    #[case] element: &str,
    #[case] plain: usize,
) {
    let json = format!("[{}{{}}]", element.repeat(plain / element.len()));
    let stored = support::compressed(json.as_bytes());
    assert!(stored.len() < 300_000, "{}", stored.len());
    let error = documents::decode_list::<BackupVolumeInfo>(&stored).expect_err("it was read").to_string();
    assert!(error.contains("bytes of memory") || error.contains("a ratio of more than 250"), "{error}");
}

#[test]
fn a_list_of_few_bytes_that_needs_much_memory_is_refused_before_it_is_parsed() {
    let mut json = String::from("[");
    for number in 0..600_000_u64 {
        // Texts without a pattern, so that the ratio is an ordinary one.
        let _ = write!(json, r#"{{"pvName":"{:x}"}},"#, number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
    json += "{}]";
    let error = documents::decode_list::<BackupVolumeInfo>(&support::compressed(json.as_bytes()));
    let error = error.expect_err("it was read").to_string();
    assert!(error.contains("bytes of memory"), "{error}");
}

#[test]
fn a_list_of_twenty_thousand_volumes_is_read() {
    let volume = |number: u64| BackupVolumeInfo {
        pvc_name: format!("data-db-{number}"),
        pvc_namespace: "shop".into(),
        pv_name: format!("pvc-{:x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        backup_method: "CSISnapshot".into(),
        result: "succeeded".into(),
        ..BackupVolumeInfo::default()
    };
    let volumes: Vec<_> = (0..20_000).map(volume).collect();
    let stored = documents::encode(&volumes).unwrap();
    assert_eq!(documents::decode_list::<BackupVolumeInfo>(&stored).unwrap(), volumes);
}
