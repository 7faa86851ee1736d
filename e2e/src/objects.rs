//! The objects of a namespace in a form that can be compared across a backup and a restore: without what every cluster
//! assigns (UIDs, versions, times, addresses) and what controllers set.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::get;

/// Types whose objects are compared. Endpoints, events and leases change by themselves.
const TYPES: &str = "configmaps,secrets,services,serviceaccounts,persistentvolumeclaims,pods,deployments,statefulsets,daemonsets,\
replicasets,jobs,cronjobs,roles,rolebindings,networkpolicies,poddisruptionbudgets";

/// Fields that a cluster assigns, by pointer.
const ASSIGNED: [&str; 24] = [
    "/status",
    "/metadata/uid",
    "/metadata/resourceVersion",
    "/metadata/creationTimestamp",
    "/metadata/generation",
    "/metadata/managedFields",
    "/metadata/ownerReferences",
    "/metadata/generateName",
    "/metadata/namespace",
    "/metadata/finalizers",
    "/metadata/labels/velero.io~1backup-name",
    "/metadata/labels/velero.io~1restore-name",
    "/metadata/annotations/pv.kubernetes.io~1bind-completed",
    "/metadata/annotations/pv.kubernetes.io~1bound-by-controller",
    "/metadata/annotations/volume.kubernetes.io~1selected-node",
    "/metadata/annotations/volume.kubernetes.io~1storage-provisioner",
    "/metadata/annotations/volume.beta.kubernetes.io~1storage-provisioner",
    "/spec/clusterIP",
    "/spec/clusterIPs",
    "/spec/nodeName",
    "/spec/volumeName",
    "/spec/priority",
    "/spec/selector/matchLabels/batch.kubernetes.io~1controller-uid",
    "/secrets",
];

/// Every compared object of a namespace, by kind and name.
pub fn objects_of(namespace: &str) -> BTreeMap<String, Value> {
    let list = get(&["-n", namespace, TYPES]);
    let items = list["items"].as_array().cloned().unwrap_or_default();
    items
        .into_iter()
        .filter(|item| !is_made_by_the_cluster(item))
        .map(|item| (key(&item), normalised(item)))
        .collect()
}

/// Fails with the first difference between two namespaces.
pub fn assert_same_objects(before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>) {
    let (names, restored): (Vec<_>, Vec<_>) = (before.keys().collect(), after.keys().collect());
    assert_eq!(names, restored, "other objects than before");
    for (name, object) in before {
        assert_eq!(
            serde_json::to_string_pretty(object).unwrap(),
            serde_json::to_string_pretty(&after[name]).unwrap(),
            "{name} differs"
        );
    }
}

fn key(item: &Value) -> String {
    format!("{}/{}", item["kind"].as_str().unwrap(), item["metadata"]["name"].as_str().unwrap())
}

/// Objects that a cluster creates in every namespace.
fn is_made_by_the_cluster(item: &Value) -> bool {
    matches!(key(item).as_str(), "ConfigMap/kube-root-ca.crt" | "ServiceAccount/default")
        || item["type"] == "kubernetes.io/service-account-token"
}

fn normalised(mut item: Value) -> Value {
    for pointer in ASSIGNED {
        remove(&mut item, pointer);
    }
    drop_empty(&mut item, "/metadata/labels");
    drop_empty(&mut item, "/metadata/annotations");
    if item["kind"] == "Pod" {
        without_token_volume(&mut item);
    }
    if let Some(ports) = item.pointer_mut("/spec/ports").and_then(Value::as_array_mut) {
        for port in ports {
            remove(port, "/nodePort");
        }
    }
    item
}

fn remove(value: &mut Value, pointer: &str) {
    let Some((parent, field)) = pointer.rsplit_once('/') else { return };
    if let Some(object) = value.pointer_mut(parent).and_then(Value::as_object_mut) {
        object.remove(&field.replace("~1", "/"));
    }
}

fn drop_empty(value: &mut Value, pointer: &str) {
    if value.pointer(pointer).and_then(Value::as_object).is_some_and(serde_json::Map::is_empty) {
        remove(value, pointer);
    }
}

/// The volume with the service account's token has a random name.
fn without_token_volume(pod: &mut Value) {
    let is_token =
        |entry: &Value| entry["name"].as_str().is_some_and(|name| name.starts_with("kube-api-access-"));
    if let Some(volumes) = pod.pointer_mut("/spec/volumes").and_then(Value::as_array_mut) {
        volumes.retain(|volume| !is_token(volume));
    }
    for list in ["/spec/containers", "/spec/initContainers"] {
        for container in pod.pointer_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(mounts) = container.pointer_mut("/volumeMounts").and_then(Value::as_array_mut) {
                mounts.retain(|mount| !is_token(mount));
            }
        }
    }
}
