//! CSI snapshots of claims, through the objects of snapshot.storage.k8s.io, for any API: whether a claim has a volume
//! that can be snapshotted, the state of a snapshot, errors that its driver reports.

use lifeboat_api::catalogue::{GroupResource, ItemId};
use serde_json::{Value, json};

use super::attempts::QUIESCED;
use super::text;
use crate::quantity::Quantity;

/// The API group of all of these objects.
pub const GROUP: &str = "snapshot.storage.k8s.io";
/// The API version in use.
pub const VERSION: &str = "v1";

/// Label of objects that a server created: the server's namespace. Other installations ignore such objects.
pub const SERVER: &str = "lifeboat.io/server-namespace";

/// The consistency of a snapshot's data: crash-consistent, or quiesced by hooks.
pub fn consistency(quiesced: bool) -> &'static str {
    if quiesced { QUIESCED } else { SNAPSHOT }
}

/// Crash-consistent: all files at one moment.
pub const SNAPSHOT: &str = "Snapshot";

pub fn snapshots() -> GroupResource {
    GroupResource::new(GROUP, "volumesnapshots")
}

pub fn contents() -> GroupResource {
    GroupResource::new(GROUP, "volumesnapshotcontents")
}

pub fn classes() -> GroupResource {
    GroupResource::new(GROUP, "volumesnapshotclasses")
}

/// The volume of a bound claim; unbound claims have no data.
pub fn volume_of(claim: &Value) -> Option<ItemId> {
    let volume = text(claim, "/spec/volumeName");
    let bound = text(claim, "/status/phase") == "Bound" && !volume.is_empty();
    bound.then(|| ItemId::cluster(GroupResource::new("", "persistentvolumes"), volume))
}

/// The CSI driver of a PersistentVolume; None for volumes of other kinds.
pub fn driver_of(volume: &Value) -> Option<&str> {
    Some(text(volume, "/spec/csi/driver")).filter(|driver| !driver.is_empty())
}

/// The content that a snapshot is bound to.
pub fn bound_content(snapshot: &Value) -> Option<&str> {
    Some(text(snapshot, "/status/boundVolumeSnapshotContentName")).filter(|name| !name.is_empty())
}

/// Whether a content names this VolumeSnapshot as the one it belongs to. The name of a content in the status of a
/// VolumeSnapshot is no proof, because a user who may write that status could name the content of another namespace.
pub fn is_content_of(content: &Value, snapshot: &Value) -> bool {
    let own = &content["spec"]["volumeSnapshotRef"];
    // The API server takes no content without a reference.
    let is_same = |field: &str| own[field].is_null() || own[field] == snapshot["metadata"][field];
    is_same("namespace") && is_same("name")
}

/// Whether the data of a content's snapshot is final.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fixed {
    Yes,
    /// Not yet; the message that the objects report.
    Waiting(String),
}

/// A snapshot is final once it has its handle and creation time: later writes to the volume do not change it.
pub fn fixed(snapshot: &Value, content: Option<&Value>) -> Fixed {
    let said = reported_error(snapshot).or(content.and_then(reported_error));
    if is_going(snapshot) || content.is_some_and(is_going) {
        return Fixed::Waiting("it is being deleted".to_owned());
    }
    let Some(content) = content else {
        let message = "no snapshot controller has bound it to a content yet; is one running?";
        return Fixed::Waiting(said.unwrap_or_else(|| message.to_owned()));
    };
    let status = &content["status"];
    if status["snapshotHandle"].is_string() && !status["creationTime"].is_null() {
        return Fixed::Yes;
    }
    Fixed::Waiting(said.unwrap_or_else(|| "its driver has not taken it yet".to_owned()))
}

/// Whether the object is being deleted and only waits for its finalizers.
pub fn is_going(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// Whether volumes can be created from it.
pub fn is_ready(content: &Value) -> bool {
    content["status"]["readyToUse"] == true
}

/// The error that a driver or controller reports.
pub fn reported_error(object: &Value) -> Option<String> {
    let message = text(object, "/status/error/message");
    (!message.is_empty()).then(|| message.to_owned())
}

/// Raises a claim's request to the size that its snapshot needs: a volume may be larger than requested.
pub fn grown(claim: &mut Value, restore_size: Option<i64>) {
    let Some(size) = restore_size.filter(|size| *size > 0) else { return };
    let asked = claim.pointer("/spec/resources/requests/storage").and_then(Value::as_str);
    let enough = asked.and_then(Quantity::parse).is_some_and(|asked| asked.is_at_least(size));
    if !enough {
        claim["spec"]["resources"]["requests"]["storage"] = json!(binary(size));
    }
}

/// The Secret that a pair of annotations names.
fn secret(object: &Value, name: &str, namespace: &str) -> Option<ItemId> {
    let annotation = |key: &str| object["metadata"]["annotations"][key].as_str();
    let (name, namespace) = (annotation(name)?, annotation(namespace)?);
    Some(ItemId::namespaced(GroupResource::new("", "secrets"), namespace, name))
}

/// The Secret with which a driver deletes the snapshot of a content.
pub fn deletion_secret(content: &Value) -> Option<ItemId> {
    secret(
        content,
        "csi.storage.k8s.io/snapshotter-secret-name",
        "csi.storage.k8s.io/snapshotter-secret-namespace",
    )
}

/// The Secret with which a driver lists the snapshots of a class.
pub fn list_secret(class: &Value) -> Option<ItemId> {
    secret(
        class,
        "csi.storage.k8s.io/snapshotter-list-secret-name",
        "csi.storage.k8s.io/snapshotter-list-secret-namespace",
    )
}

/// Formats bytes as a Kubernetes quantity.
pub(crate) fn binary(bytes: i64) -> String {
    let suffixes = ["Ki", "Mi", "Gi", "Ti", "Pi"];
    let (mut number, mut suffix) = (bytes, "");
    for next in suffixes {
        if number == 0 || number % 1024 != 0 {
            break;
        }
        (number, suffix) = (number / 1024, next);
    }
    format!("{number}{suffix}")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::its_own("shop", "data-1", true)]
    #[case::of_another_snapshot("shop", "data-2", false)]
    #[case::of_another_namespace("bank", "data-1", false)]
    fn a_content_belongs_to_the_snapshot_that_it_names(
        #[case] namespace: &str,
        #[case] name: &str,
        #[case] expected: bool,
    ) {
        let snapshot = json!({"metadata": {"namespace": "shop", "name": "data-1"},
            "status": {"boundVolumeSnapshotContentName": "content"}});
        let content = json!({"metadata": {"name": "content"},
            "spec": {"volumeSnapshotRef": {"namespace": namespace, "name": name}}});
        assert_eq!(is_content_of(&content, &snapshot), expected);
    }
}
