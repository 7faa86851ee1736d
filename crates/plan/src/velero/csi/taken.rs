//! A snapshot that a backup takes: the object that requests it, its state, and the annotations that the backup stores
//! in it.

use lifeboat_api::common::BackupUid;
use serde_json::{Map, Value, json};

use super::{
    DELETION_POLICY, DRIVER, GROUP_HANDLE, HANDLE, LOCATION, OF_BACKUP, OfBackup, RESTORE_SIZE, group_handle,
};
use crate::label;
use crate::transfer::snapshots::{GROUP, SERVER, VERSION, binary, is_going};

/// The VolumeSnapshot that requests a snapshot from a driver.
pub fn snapshot(name: &str, claim: &Value, class: &str, backup: &OfBackup) -> Value {
    let labels = snapshot_labels(claim, backup);
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "VolumeSnapshot",
        "metadata": {"name": name, "namespace": claim["metadata"]["namespace"], "labels": labels},
        "spec": {
            "source": {"persistentVolumeClaimName": claim["metadata"]["name"]},
            "volumeSnapshotClassName": class,
        },
    })
}

/// The claim's labels are copied as upstream does, except those that say which restore created the claim.
pub(super) fn snapshot_labels(claim: &Value, backup: &OfBackup) -> Map<String, Value> {
    let labels = claim["metadata"]["labels"].as_object().into_iter().flatten();
    let mut labels: Map<String, Value> = labels
        .filter(|(key, _)| !key.starts_with("velero.io/") && !key.starts_with("lifeboat.io/"))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    labels.extend(labels_of(backup));
    labels
}

/// The labels by which a snapshot or a content is recognised as a backup's.
fn labels_of(backup: &OfBackup) -> Map<String, Value> {
    let labels = [
        ("velero.io/backup-name", label::value(&backup.name)),
        (OF_BACKUP, backup.uid.to_string()),
        (LOCATION, label::value(backup.location.as_str())),
        (SERVER, backup.namespace.to_string()),
    ];
    labels.into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect()
}

/// The backup UIDs in a label of objects, for the objects of one server.
pub fn backups_of(objects: &[Value], label: &str, server: &str) -> impl Iterator<Item = BackupUid> {
    let of = move |object: &Value| {
        let labels = &object["metadata"]["labels"];
        (labels[SERVER] == *server).then(|| labels[label].as_str().map(BackupUid::new)).flatten()
    };
    objects.iter().filter_map(of)
}

/// The patch of a content while a backup runs: the labels of the backup, and a deletion policy that keeps the
/// snapshot when the VolumeSnapshot is deleted.
pub fn content_patch(content: &Value, backup: &OfBackup) -> Option<Value> {
    let labels = &content["metadata"]["labels"];
    if is_going(content) {
        return None;
    }
    let ours = labels[OF_BACKUP] == backup.uid.as_str() && content["spec"]["deletionPolicy"] == "Retain";
    let policy = policy_before(content);
    (!ours).then(|| {
        json!({
            "metadata": {
                "labels": labels_of(backup),
                "annotations": {DELETION_POLICY: policy},
            },
            "spec": {"deletionPolicy": "Retain"},
        })
    })
}

/// The deletion policy of a content before a backup changed it.
pub(super) fn policy_before(content: &Value) -> &Value {
    let noted = &content["metadata"]["annotations"][DELETION_POLICY];
    if noted.is_null() { &content["spec"]["deletionPolicy"] } else { noted }
}

/// The minimum size of a volume created from a content's snapshot. A member of a group has it in an annotation,
/// because not every driver reports it again.
pub fn restore_size(content: &Value) -> Option<i64> {
    let noted = || content["metadata"]["annotations"][RESTORE_SIZE].as_str()?.parse().ok();
    content["status"]["restoreSize"].as_i64().filter(|size| *size > 0).or_else(noted)
}

/// The annotations of a snapshot in the backup, from which it is restored.
pub fn snapshot_notes(content: &Value) -> Value {
    let mut notes = json!({DELETION_POLICY: policy_before(content)});
    let status = &content["status"];
    if status["snapshotHandle"].is_string() {
        notes[HANDLE] = status["snapshotHandle"].clone();
        notes[DRIVER] = content["spec"]["driver"].clone();
    }
    if let Some(size) = restore_size(content) {
        notes[RESTORE_SIZE] = json!(binary(size));
    }
    let group = group_handle(content);
    if !group.is_empty() {
        notes[GROUP_HANDLE] = json!(group);
    }
    notes
}

#[cfg(test)]
mod tests {
    use lifeboat_api::common::{LocationName, NamespaceName};
    use rstest::rstest;

    use super::*;
    use crate::transfer::snapshots::{Fixed, fixed, grown};

    fn nightly() -> OfBackup {
        OfBackup {
            name: "nightly".into(),
            uid: BackupUid::new("uid"),
            location: LocationName::new("main"),
            namespace: NamespaceName::new("lifeboat"),
        }
    }

    fn claim() -> Value {
        json!({"metadata": {"name": "data", "namespace": "shop", "labels": {"app": "db", "velero.io/restore-name": "r"}},
            "spec": {"resources": {"requests": {"storage": "1Gi"}}}})
    }

    #[test]
    fn a_snapshot_carries_the_claims_labels_and_its_backup() {
        let made = snapshot("s", &claim(), "fast", &nightly());
        let labels = json!({"app": "db", "velero.io/backup-name": "nightly", "lifeboat.io/backup-uid": "uid",
            "velero.io/storage-location": "main", "lifeboat.io/server-namespace": "lifeboat"});
        assert_eq!(made["metadata"]["labels"], labels);
        let all = [made.clone()];
        assert_eq!(backups_of(&all, OF_BACKUP, "lifeboat").collect::<Vec<_>>(), ["uid"]);
        assert_eq!(backups_of(&all, OF_BACKUP, "another").count(), 0, "others leave it alone");
        assert_eq!(made["metadata"]["namespace"], "shop");
        assert_eq!(
            made["spec"],
            json!({"source": {"persistentVolumeClaimName": "data"}, "volumeSnapshotClassName": "fast"})
        );
    }

    #[rstest]
    #[case::nothing(json!({}), None, Err("no snapshot controller"))]
    #[case::error(json!({"status": {"error": {"message": "no space"}}}), None, Err("no space"))]
    #[case::bound(json!({}), Some(json!({})), Err("its driver has not taken it yet"))]
    #[case::contents_error(json!({}), Some(json!({"status": {"error": {"message": "quota"}}})), Err("quota"))]
    #[case::no_time(json!({}), Some(json!({"status": {"snapshotHandle": "h"}})), Err("its driver"))]
    #[case::going(json!({"metadata": {"deletionTimestamp": "2026-11-16T01:00:00Z"}}),
        Some(json!({"status": {"snapshotHandle": "h", "creationTime": 5}})), Err("it is being deleted"))]
    #[case::taken(json!({}), Some(json!({"status": {"snapshotHandle": "h", "creationTime": 5}})), Ok(()))]
    fn a_snapshot_is_fixed_with_its_handle_and_time(
        #[case] snapshot: Value,
        #[case] content: Option<Value>,
        #[case] expected: Result<(), &str>,
    ) {
        match (fixed(&snapshot, content.as_ref()), expected) {
            (Fixed::Yes, Ok(())) => {}
            (Fixed::Waiting(message), Err(part)) => assert!(message.contains(part), "{message}"),
            (fixed, expected) => panic!("{fixed:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn a_content_outlives_its_volume_snapshot_and_its_own_policy_is_recorded() {
        let mut content = json!({"metadata": {"name": "c"}, "spec": {"deletionPolicy": "Delete", "driver": "d"},
            "status": {"snapshotHandle": "h", "restoreSize": 1_073_741_824}});
        let patch = content_patch(&content, &nightly()).unwrap();
        assert_eq!(patch["spec"]["deletionPolicy"], "Retain");
        content["metadata"]["labels"] = patch["metadata"]["labels"].clone();
        content["metadata"]["annotations"] = patch["metadata"]["annotations"].clone();
        content["spec"]["deletionPolicy"] = json!("Retain");
        assert_eq!(content_patch(&content, &nightly()), None);
        let notes = json!({DELETION_POLICY: "Delete", HANDLE: "h", DRIVER: "d", RESTORE_SIZE: "1Gi"});
        assert_eq!(snapshot_notes(&content), notes);
    }

    #[rstest]
    #[case::none(None, "1Gi")]
    #[case::smaller(Some(1 << 20), "1Gi")]
    #[case::same(Some(1 << 30), "1Gi")]
    #[case::larger(Some(3 << 29), "1536Mi")]
    #[case::odd(Some((1 << 30) + 1), "1073741825")]
    fn a_claim_asks_for_what_its_snapshot_needs(#[case] size: Option<i64>, #[case] expected: &str) {
        let mut claim = claim();
        grown(&mut claim, size);
        assert_eq!(claim["spec"]["resources"]["requests"]["storage"], expected);
    }
}
