//! Restoring from CSI snapshots: a content that refers to the snapshot in the driver, a VolumeSnapshot bound to it,
//! and a claim that is filled from that. Each restore creates its own two objects, so that restores of one backup do
//! not conflict.

use std::collections::BTreeMap;

use lifeboat_api::catalogue::ItemId;
use serde_json::{Value, json};

use super::{DELETION_POLICY, LOCATION, MUST_RESTORE, OF_BACKUP, SNAPSHOT_NAME, restored_name, text};
use crate::transfer::snapshots::{self, GROUP, SERVER, VERSION};

/// Why a CSI snapshot of a backup cannot be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRestorable {
    #[error("it was bound to no content when it was backed up: there is nothing to restore from")]
    NotBound,
    #[error("the backup does not say which snapshot of the driver it is (status.snapshotHandle)")]
    NoHandle,
}

/// The VolumeSnapshot, and its content in the backup.
pub fn snapshot(
    mut item: Value,
    from_backup: &Value,
    restore_uid: &str,
) -> Result<(Value, ItemId), NotRestorable> {
    let name = restored_name(restore_uid, text(from_backup, "/metadata/name"));
    let Some(content) = snapshots::bound_content(from_backup) else {
        return Err(NotRestorable::NotBound);
    };
    let content = ItemId::cluster(snapshots::contents(), content);
    item["metadata"]["name"] = json!(name);
    item["spec"] = json!({"source": {"volumeSnapshotContentName": name}});
    forget_backup(&mut item);
    let annotations = &mut item["metadata"]["annotations"];
    annotations[DELETION_POLICY] = json!("Retain");
    annotations[MUST_RESTORE] = json!("true");
    Ok((item, content))
}

/// The content. `class`: one of its driver in this cluster, for credentials.
pub fn content(
    mut item: Value,
    from_backup: &Value,
    restore_uid: &str,
    mapping: &BTreeMap<String, String>,
    class: Option<&str>,
) -> Result<Value, NotRestorable> {
    let handle = from_backup["status"]["snapshotHandle"].clone();
    if !handle.is_string() {
        return Err(NotRestorable::NoHandle);
    }
    let name = restored_name(restore_uid, text(from_backup, "/spec/volumeSnapshotRef/name"));
    let namespace = text(&item, "/spec/volumeSnapshotRef/namespace");
    let namespace = mapping.get(namespace).map_or(namespace, String::as_str).to_owned();
    item["metadata"]["name"] = json!(name);
    let spec = &mut item["spec"];
    spec["volumeSnapshotRef"] = json!({"apiVersion": format!("{GROUP}/{VERSION}"), "kind": "VolumeSnapshot",
        "namespace": namespace, "name": name});
    // The snapshot belongs to the backup: deleting restored objects must not delete it.
    spec["deletionPolicy"] = json!("Retain");
    spec["source"] = json!({"snapshotHandle": handle});
    let spec = spec.as_object_mut();
    match (spec, class) {
        (Some(spec), Some(class)) => drop(spec.insert("volumeSnapshotClassName".to_owned(), json!(class))),
        (Some(spec), None) => drop(spec.remove("volumeSnapshotClassName")),
        (None, _) => {}
    }
    forget_backup(&mut item);
    // It would make the content be deleted together with the VolumeSnapshot that was backed up.
    if let Some(annotations) = item.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove("snapshot.storage.kubernetes.io/volumesnapshot-being-deleted");
    }
    Ok(item)
}

/// The claim, and its VolumeSnapshot in the backup; None if the backup has no snapshot of it.
pub fn claim(mut item: Value, from_backup: &Value, restore_uid: &str) -> (Value, Option<ItemId>) {
    let Some(snapshot) = from_backup["metadata"]["annotations"][SNAPSHOT_NAME].as_str() else {
        return (item, None);
    };
    let place =
        ItemId::namespaced(snapshots::snapshots(), text(from_backup, "/metadata/namespace"), snapshot);
    if let Some(spec) = item["spec"].as_object_mut() {
        spec.remove("volumeName");
        spec.remove("dataSourceRef");
        let source = json!({"apiGroup": GROUP, "kind": "VolumeSnapshot", "name": restored_name(restore_uid, snapshot)});
        spec.insert("dataSource".to_owned(), source);
    }
    item["metadata"]["annotations"][MUST_RESTORE] = json!("true");
    (item, Some(place))
}

/// Removes the labels of a running backup from a restored object.
fn forget_backup(item: &mut Value) {
    if let Some(labels) = item.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(OF_BACKUP);
        labels.remove(SERVER);
        labels.remove(LOCATION);
    }
    if let Some(metadata) = item["metadata"].as_object_mut() {
        metadata.remove("finalizers");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels() -> Value {
        json!({"velero.io/backup-name": "b", OF_BACKUP: "uid", "snapshot.storage.kubernetes.io/managed-by": "node-a"})
    }

    #[test]
    fn snapshot_content_and_claim_find_each_other_in_another_namespace() {
        let snapshot_in = json!({"metadata": {"namespace": "shop", "name": "s", "labels": labels(), "finalizers": ["x"]},
            "spec": {"source": {"persistentVolumeClaimName": "data"}, "volumeSnapshotClassName": "fast"},
            "status": {"boundVolumeSnapshotContentName": "c"}});
        let content_in = json!({"metadata": {"name": "c", "labels": labels()},
            "spec": {"driver": "d", "deletionPolicy": "Delete", "source": {"volumeHandle": "v"},
                "volumeSnapshotClassName": "gone",
                "volumeSnapshotRef": {"namespace": "shop", "name": "s", "uid": "u", "resourceVersion": "7"}},
            "status": {"snapshotHandle": "h"}});
        let claim_in = json!({"metadata": {"namespace": "shop", "name": "data", "annotations": {SNAPSHOT_NAME: "s"}},
            "spec": {"volumeName": "pv", "dataSourceRef": {}}});
        let mapping = [("shop".to_owned(), "copy".to_owned())].into();

        let (made, named) = snapshot(snapshot_in.clone(), &snapshot_in, "r").unwrap();
        let name = made["metadata"]["name"].as_str().unwrap().to_owned();
        assert_eq!(named.to_string(), "volumesnapshotcontents.snapshot.storage.k8s.io c");
        assert_eq!(made["spec"], json!({"source": {"volumeSnapshotContentName": name}}));
        assert!(made["metadata"]["labels"].get(OF_BACKUP).is_none());
        assert!(made["metadata"].get("finalizers").is_none());

        let content = content(content_in.clone(), &content_in, "r", &mapping, Some("other")).unwrap();
        assert_eq!(content["metadata"]["name"], *name);
        assert_eq!(content["metadata"]["labels"]["snapshot.storage.kubernetes.io/managed-by"], "node-a");
        assert_eq!(content["spec"]["source"], json!({"snapshotHandle": "h"}));
        assert_eq!(content["spec"]["deletionPolicy"], "Retain");
        assert_eq!(content["spec"]["volumeSnapshotClassName"], "other");
        let reference = &content["spec"]["volumeSnapshotRef"];
        assert_eq!((&reference["namespace"], &reference["name"]), (&json!("copy"), &json!(name)));
        assert!(reference.get("uid").is_none());

        let (claim, named) = claim(claim_in.clone(), &claim_in, "r");
        assert_eq!(named.unwrap().to_string(), "volumesnapshots.snapshot.storage.k8s.io shop/s");
        let source = json!({"apiGroup": GROUP, "kind": "VolumeSnapshot", "name": name});
        assert_eq!(claim["spec"], json!({"dataSource": source}));
    }

    #[test]
    fn what_cannot_be_restored_says_why() {
        let snapshot_in = json!({"metadata": {"name": "s"}, "spec": {}});
        assert!(
            snapshot(snapshot_in.clone(), &snapshot_in, "r").unwrap_err().to_string().contains("no content")
        );
        let content_in = json!({"metadata": {"name": "c"}, "spec": {}});
        let failed = content(content_in.clone(), &content_in, "r", &BTreeMap::new(), None);
        assert!(failed.unwrap_err().to_string().contains("status.snapshotHandle"));
    }

    #[test]
    fn a_claim_without_a_snapshot_stays_as_it_is() {
        let item = json!({"metadata": {"namespace": "shop", "name": "data"}, "spec": {"volumeName": "pv"}});
        assert_eq!(claim(item.clone(), &item, "r"), (item, None));
    }
}
