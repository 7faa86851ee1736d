//! Deletes a snapshot that only its driver still has: a content with its handle is created and deleted again, upon
//! which the driver deletes the snapshot. Also decides about snapshots in the cluster whose Backup is gone.

use lifeboat_api::common::{BackupUid, LocationName};
use serde_json::{Value, json};

use super::{DELETION_POLICY, OF_BACKUP, text};
use crate::label;
use crate::transfer::snapshots::{GROUP, SERVER, VERSION};
use crate::velero::deletion::Stored;

/// What snapshots in the cluster are whose Backup is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Orphan {
    /// Storage has the backup: they belong to it.
    Stored,
    /// No location has the backup: the snapshots are not referenced any more.
    Lost,
    /// It cannot be determined; the reason.
    Unknown(String),
}

/// `looked`: the locations where the backup with this UID may be, and what each has under the backup's name.
pub fn orphan(uid: &BackupUid, looked: &[(LocationName, Stored)]) -> Orphan {
    let is_it = |stored: &Stored| matches!(stored, Stored::Found { uid: found, .. } if *uid == **found);
    if looked.iter().any(|(_, stored)| is_it(stored)) {
        return Orphan::Stored;
    }
    let unread = looked.iter().find_map(|(location, stored)| match stored {
        Stored::Unreadable(problem) => Some(format!("its file in location {location} {problem}")),
        // An old or foreign file may have no UID.
        Stored::Found { uid, .. } if uid.is_empty() => {
            Some(format!("its file in location {location} has no UID"))
        }
        Stored::Absent | Stored::Found { .. } => None,
    });
    match unread {
        Some(reason) => Orphan::Unknown(reason),
        None if looked.is_empty() => Orphan::Unknown("no storage location is known for it".to_owned()),
        None => Orphan::Lost,
    }
}

/// Whether a backup took the snapshot of this content; other contents belong to users.
pub fn is_of_backup(content: &Value, backup: &str) -> bool {
    content["metadata"]["labels"]["velero.io/backup-name"] == *label::value(backup)
}

/// Driver and handle of a content in the cluster that a backup left, and no restore made: contents that restores make
/// hold what the bucket says.
pub fn is_own_content(content: &Value, backup: &str) -> Option<(String, String)> {
    if !is_of_backup(content, backup) || content["metadata"]["labels"]["velero.io/restore-name"].is_string() {
        return None;
    }
    let handle = match text(content, "/status/snapshotHandle") {
        "" => text(content, "/spec/source/snapshotHandle"),
        handle => handle,
    };
    (!handle.is_empty()).then(|| (text(content, "/spec/driver").to_owned(), handle.to_owned()))
}

/// Namespace and name of the VolumeSnapshot for a content that a restore created for the same snapshot as `deleted`.
/// None for all other contents: those whose deletion may delete a snapshot are not touched.
pub fn restored_from<'a>(content: &'a Value, deleted: &Value, backup: &str) -> Option<(&'a str, &'a str)> {
    let handle = text(deleted, "/status/snapshotHandle");
    let is_same = !handle.is_empty()
        && text(content, "/spec/source/snapshotHandle") == handle
        && text(content, "/spec/driver") == text(deleted, "/spec/driver");
    let is_restored = content["metadata"]["labels"]["velero.io/restore-name"].is_string();
    let is_harmless = text(content, "/spec/deletionPolicy") == "Retain";
    (is_same && is_restored && is_harmless && is_of_backup(content, backup)).then(|| {
        (text(content, "/spec/volumeSnapshotRef/namespace"), text(content, "/spec/volumeSnapshotRef/name"))
    })
}

/// The content of a snapshot of which only handle and driver are known.
pub fn content_of_handle(name: &str, handle: &str, driver: &str, backup: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"velero.io/backup-name": label::value(backup)}},
        "spec": {"driver": driver},
        "status": {"snapshotHandle": handle},
    })
}

/// The finalizer that keeps a content until its driver has deleted the snapshot; the driver's sidecar removes it.
const PROTECTION: &str = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";

/// The content to create and delete; its name is the same in every attempt. None if no snapshot was taken.
pub fn for_deletion(content: &Value) -> Option<Value> {
    let handle = content["status"]["snapshotHandle"].as_str().filter(|handle| !handle.is_empty())?;
    let driver = content["spec"]["driver"].as_str().unwrap_or_default();
    let name = format!("lifeboat-delete-{}", label::digest(&format!("{driver}/{handle}")));
    let mut annotations = content["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    // Drivers find their Secret by these annotations; the others only describe the old object.
    annotations.retain(|key, _| {
        !key.starts_with("snapshot.storage.kubernetes.io/volumesnapshot-being") && key != DELETION_POLICY
    });
    let mut labels = content["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    labels.remove(OF_BACKUP);
    labels.remove(SERVER);
    let mut made = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "VolumeSnapshotContent",
        // The controller does not add it to contents without a VolumeSnapshot; without it the object would disappear
        // before the driver deletes the snapshot.
        "metadata": {"name": name, "labels": labels, "annotations": annotations, "finalizers": [PROTECTION]},
        "spec": {
            "deletionPolicy": "Delete",
            "driver": driver,
            "source": {"snapshotHandle": handle},
            // References no VolumeSnapshot: a content without a UID here is deleted together with its snapshot.
            "volumeSnapshotRef": {"apiVersion": format!("{GROUP}/{VERSION}"), "kind": "VolumeSnapshot",
                "namespace": "lifeboat-deletes", "name": name},
        },
    });
    if content["spec"]["sourceVolumeMode"].is_string() {
        made["spec"]["sourceVolumeMode"] = content["spec"]["sourceVolumeMode"].clone();
    }
    Some(made)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn found(uid: &str) -> Stored {
        Stored::Found { uid: uid.to_owned(), started: String::new() }
    }

    #[rstest]
    #[case::stored(vec![Stored::Absent, found("u")], Ok(Orphan::Stored))]
    #[case::stored_beside_an_unreadable_one(vec![Stored::Unreadable("x".into()), found("u")], Ok(Orphan::Stored))]
    #[case::nowhere(vec![Stored::Absent, Stored::Absent], Ok(Orphan::Lost))]
    #[case::another_of_its_name(vec![found("other")], Ok(Orphan::Lost))]
    #[case::unreadable(vec![Stored::Absent, Stored::Unreadable("cannot be read: no route".into())], Err("cannot be read: no route"))]
    #[case::without_a_uid(vec![found("")], Err("has no UID"))]
    #[case::no_location(vec![], Err("no storage location"))]
    fn only_snapshots_of_backups_in_no_location_are_lost(
        #[case] looked: Vec<Stored>,
        #[case] expected: Result<Orphan, &str>,
    ) {
        let looked: Vec<_> = looked.into_iter().map(|stored| (LocationName::new("main"), stored)).collect();
        match (orphan(&BackupUid::new("u"), &looked), expected) {
            (Orphan::Unknown(reason), Err(part)) => assert!(reason.contains(part), "{reason}"),
            (orphan, Ok(expected)) => assert_eq!(orphan, expected),
            (orphan, expected) => panic!("{orphan:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn a_snapshot_is_deleted_by_its_handle_with_the_labels_and_secrets_of_its_content() {
        let content = json!({
            "metadata": {"name": "c", "uid": "u", "resourceVersion": "3", "finalizers": ["f"],
                "labels": {"velero.io/backup-name": "b", OF_BACKUP: "uid", "snapshot.storage.kubernetes.io/managed-by": "n"},
                "annotations": {"snapshot.storage.kubernetes.io/deletion-secret-name": "s"}},
            "spec": {"deletionPolicy": "Retain", "driver": "d", "source": {"volumeHandle": "v"}, "volumeSnapshotClassName": "x",
                "volumeSnapshotRef": {"name": "s", "uid": "u"}},
            "status": {"snapshotHandle": "h"},
        });
        assert!(is_of_backup(&content, "b") && !is_of_backup(&content, "other"));
        let made = for_deletion(&content).unwrap();
        assert_eq!(made["spec"]["deletionPolicy"], "Delete");
        assert_eq!(made["spec"]["source"], json!({"snapshotHandle": "h"}));
        assert_eq!(made["metadata"]["finalizers"], json!([PROTECTION]), "it stays until its driver is done");
        assert!(made["spec"]["volumeSnapshotRef"].get("uid").is_none());
        assert!(made["spec"].get("volumeSnapshotClassName").is_none());
        let labels = json!({"velero.io/backup-name": "b", "snapshot.storage.kubernetes.io/managed-by": "n"});
        assert_eq!(made["metadata"]["labels"], labels);
        assert_eq!(
            made["metadata"]["annotations"]["snapshot.storage.kubernetes.io/deletion-secret-name"],
            "s"
        );
        assert_eq!(for_deletion(&content).unwrap()["metadata"]["name"], made["metadata"]["name"]);
    }

    #[rstest]
    #[case::restored("", Value::Null, true)]
    #[case::of_another_backup("/metadata/labels/velero.io~1backup-name", json!("other"), false)]
    #[case::not_restored("/metadata/labels/velero.io~1restore-name", Value::Null, false)]
    #[case::of_another_snapshot("/spec/source/snapshotHandle", json!("other"), false)]
    #[case::of_another_driver("/spec/driver", json!("other"), false)]
    #[case::one_that_deletes("/spec/deletionPolicy", json!("Delete"), false)]
    fn only_what_restores_made_of_the_same_snapshot_goes_with_it(
        #[case] field: &str,
        #[case] value: Value,
        #[case] goes: bool,
    ) {
        let deleted = content_of_handle("c", "h", "d", "b");
        let mut content = json!({
            "metadata": {"labels": {"velero.io/backup-name": "b", "velero.io/restore-name": "r"}},
            "spec": {"driver": "d", "deletionPolicy": "Retain", "source": {"snapshotHandle": "h"},
                "volumeSnapshotRef": {"namespace": "shop", "name": "s"}},
        });
        if let Some(place) = content.pointer_mut(field).filter(|_| !field.is_empty()) {
            *place = value;
        }
        assert_eq!(restored_from(&content, &deleted, "b"), goes.then_some(("shop", "s")));
    }

    #[test]
    fn what_was_never_made_is_not_deleted() {
        assert_eq!(for_deletion(&json!({"metadata": {"name": "c"}, "spec": {"driver": "d"}})), None);
    }
}
