//! Prepares an object of a backup for creation in another cluster: removes what the source cluster assigned, owner
//! references that would get it garbage-collected, and the bindings of volumes. As upstream does it. Called by the
//! executor for each item, after reading it and before the actions.

use std::collections::BTreeMap;

use lifeboat_api::catalogue::{GroupResource, ItemId};
use serde_json::{Map, Value, json};

use crate::label;

/// Fields of `metadata` that are only valid for the object that was backed up.
const OF_THE_OLD_OBJECT: [&str; 9] = [
    "generateName",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
];

/// Annotations with which volume controllers record that a claim and a volume are bound.
const BINDING: [&str; 2] = ["pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"];

/// The removed fields that are needed later.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taken {
    pub status: Option<Value>,
    /// The managed fields, if a server-side applier is among the managers: only appliers depend on them.
    pub applied_fields: Option<Value>,
}

/// The object has no `metadata`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("metadata not found")]
pub struct NoMetadata;

/// Removes the fields that prevent the object from being created.
pub fn strip(object: &mut Value) -> Result<Taken, NoMetadata> {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut).ok_or(NoMetadata)?;
    for field in OF_THE_OLD_OBJECT {
        metadata.remove(field);
    }
    let fields = metadata.remove("managedFields");
    let status = object.as_object_mut().and_then(|object| object.remove("status"));
    Ok(Taken { status, applied_fields: fields.filter(has_applier) })
}

fn has_applier(fields: &Value) -> bool {
    fields.as_array().into_iter().flatten().any(|entry| entry["operation"] == "Apply")
}

/// Removes the binding of a claim or a volume, so that the volume controller binds the two again.
pub fn unbind(object: &mut Value) {
    if let Some(claim) = object.pointer_mut("/spec/claimRef").and_then(Value::as_object_mut) {
        claim.remove("uid");
        claim.remove("resourceVersion");
    }
    remove_annotations(object, &BINDING);
}

/// Moves the volume's claim reference to the namespace into which the claim is restored.
pub fn move_claim(object: &mut Value, mapping: &BTreeMap<String, String>) {
    if let Some(namespace) = object.pointer_mut("/spec/claimRef/namespace")
        && let Some(target) = namespace.as_str().and_then(|namespace| mapping.get(namespace))
    {
        *namespace = Value::String(target.clone());
    }
}

/// Sets the namespace of a restored object, and labels that name what it was restored by and from. `names`: each label
/// with a name, which may be too long for a label.
pub fn mark(object: &mut Value, namespace: Option<&str>, names: &[(&str, &str)]) {
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = json!(namespace);
    }
    let labels = entry(object, "labels");
    for (label, name) in names {
        labels.insert((*label).to_owned(), json!(label::value(name)));
    }
}

/// Whether a pod or Job has already completed: such objects are not started again.
pub fn is_completed(resource: &GroupResource, object: &Value) -> bool {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    match (resource.group.as_str(), resource.resource.as_str()) {
        ("", "pods") => matches!(text("/status/phase"), "Failed" | "Succeeded"),
        ("batch", "jobs") => !text("/status/completionTime").is_empty(),
        _ => false,
    }
}

/// The Job that owns a pod. A restored Job cannot adopt the old pod, because it selects pods by its new UID: it would
/// create another pod and do the work twice.
pub fn job_of(pod: &ItemId, object: &Value) -> Option<ItemId> {
    if !pod.resource.group.is_empty() || pod.resource.resource != "pods" {
        return None;
    }
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array)?;
    let job = owners.iter().find(|owner| {
        owner["kind"] == "Job" && owner["apiVersion"].as_str().is_some_and(|text| text.starts_with("batch/"))
    })?;
    let name = job["name"].as_str()?.to_owned();
    Some(ItemId { resource: GroupResource::new("batch", "jobs"), namespace: pod.namespace.clone(), name })
}

/// Whether a pod is the mirror of a static pod, which a kubelet runs from a file.
pub fn is_mirror_pod(resource: &GroupResource, object: &Value) -> bool {
    let mirror = object.pointer("/metadata/annotations/kubernetes.io~1config.mirror").and_then(Value::as_str);
    resource.group.is_empty() && resource.resource == "pods" && mirror.is_some_and(|text| !text.is_empty())
}

/// The namespace to restore into: labels, annotations and spec come from the backup; without a backup only the name
/// is set.
pub fn namespace(from_backup: Option<&Value>, name: &str) -> Value {
    let mut made = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    for (from, to) in [("labels", "labels"), ("annotations", "annotations")] {
        if let Some(value) = from_backup.and_then(|object| object["metadata"].get(from)) {
            made["metadata"][to] = value.clone();
        }
    }
    // The API server sets this label itself and rejects any other value.
    if let Some(labels) = made.pointer_mut("/metadata/labels").and_then(Value::as_object_mut)
        && labels.contains_key("kubernetes.io/metadata.name")
    {
        labels.insert("kubernetes.io/metadata.name".into(), json!(name));
    }
    if let Some(spec) = from_backup.and_then(|object| object.get("spec")) {
        made["spec"] = spec.clone();
    }
    made
}

/// Removes annotations, and the field itself when it becomes empty.
pub fn remove_annotations(object: &mut Value, names: &[&str]) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    for name in names {
        annotations.remove(*name);
    }
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

/// A map in `metadata`, created if it is missing.
fn entry<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    let place = &mut object["metadata"][field];
    if !place.is_object() {
        *place = json!({});
    }
    place.as_object_mut().expect("it was made an object above")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_pod_of_a_job_has_a_job() {
        let of = |resource: &str, api_version: &str, kind: &str| {
            let id = ItemId {
                resource: GroupResource::new("", resource),
                namespace: Some("shop".into()),
                name: "migrate-x".into(),
            };
            let owners = json!([{"apiVersion": api_version, "kind": kind, "name": "migrate"}]);
            job_of(&id, &json!({"metadata": {"ownerReferences": owners}})).map(|job| job.to_string())
        };
        assert!(of("pods", "batch/v1", "Job").is_some_and(|job| job.contains("shop/migrate")));
        assert_eq!(of("pods", "apps/v1", "ReplicaSet"), None);
        assert_eq!(of("pods", "example.com/v1", "Job"), None);
        assert_eq!(of("configmaps", "batch/v1", "Job"), None);
    }

    #[test]
    fn what_belongs_to_the_old_object_is_stripped_and_the_rest_stays() {
        let mut object = json!({
            "metadata": {
                "name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "1", "generation": 3,
                "creationTimestamp": "t", "selfLink": "s", "generateName": "web-",
                "ownerReferences": [{"uid": "o"}], "finalizers": ["keep"], "labels": {"app": "web"},
                "managedFields": [{"operation": "Update"}],
            },
            "spec": {"replicas": 1},
            "status": {"ready": true},
        });
        let taken = strip(&mut object).unwrap();
        assert_eq!(taken, Taken { status: Some(json!({"ready": true})), applied_fields: None });
        let metadata =
            json!({"name": "web", "namespace": "shop", "finalizers": ["keep"], "labels": {"app": "web"}});
        assert_eq!(object, json!({"metadata": metadata, "spec": {"replicas": 1}}));
    }

    #[test]
    fn fields_of_a_server_side_applier_are_kept_for_a_second_write() {
        let fields = json!([{"operation": "Update"}, {"operation": "Apply", "manager": "argo"}]);
        let mut object = json!({"metadata": {"name": "x", "managedFields": fields}});
        assert_eq!(strip(&mut object).unwrap().applied_fields, Some(fields));
        assert_eq!(strip(&mut json!({})), Err(NoMetadata));
    }

    #[test]
    fn a_volume_is_unbound_and_follows_its_claim() {
        let mut volume = json!({
            "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
            "spec": {"claimRef": {"namespace": "shop", "name": "data", "uid": "u", "resourceVersion": "7"}},
        });
        unbind(&mut volume);
        move_claim(&mut volume, &BTreeMap::from([("shop".into(), "copy".into())]));
        assert_eq!(
            volume,
            json!({"metadata": {}, "spec": {"claimRef": {"namespace": "copy", "name": "data"}}})
        );
    }

    #[test]
    fn a_restored_object_is_marked_with_names_that_are_label_values() {
        let mut object = json!({"metadata": {"namespace": "shop"}});
        let restore = "r".repeat(70);
        let names = [("example.com/backup", "b"), ("example.com/restore", restore.as_str())];
        mark(&mut object, Some("copy"), &names);
        assert_eq!(object["metadata"]["namespace"], "copy");
        assert_eq!(object["metadata"]["labels"]["example.com/backup"], "b");
        assert_eq!(object["metadata"]["labels"]["example.com/restore"].as_str().unwrap().len(), 63);
    }

    #[test]
    fn a_namespace_keeps_labels_and_annotations_under_its_new_name() {
        let old = json!({"metadata": {"name": "shop", "uid": "u", "labels": {"kubernetes.io/metadata.name": "shop"},
            "annotations": {"team": "a"}}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
        let made = namespace(Some(&old), "copy");
        assert_eq!(made["metadata"]["labels"]["kubernetes.io/metadata.name"], "copy");
        assert_eq!(made["metadata"]["annotations"]["team"], "a");
        assert_eq!(made.get("status"), None);
        assert_eq!(namespace(None, "new")["metadata"], json!({"name": "new"}));
    }
}
