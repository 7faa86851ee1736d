//! An object that already exists in the cluster: compared with the object to restore, then left, merged or updated
//! according to the Restore's policy. The messages are upstream's. Called by the executor when a create finds an
//! existing object.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::sanitise;

/// What a restore does with objects that already exist, if it says so explicitly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingPolicy {
    /// Leave them unchanged.
    None,
    /// Patch them to their state in the backup.
    Update,
}

/// What to do with an existing object.
#[derive(Clone, Debug, PartialEq)]
pub enum Existing {
    /// No change: it equals the object in the backup, or the policy adds nothing.
    Same,
    /// It differs and is left unchanged.
    Different { warning: String },
    /// Merge `patch` into it. If the API server refuses that, merge `labels`, if given.
    Merge { patch: Value, labels: Option<Value> },
    /// Only the labels with the names of backup and restore change; a failure is an error.
    Labels { patch: Value },
}

/// Decides what to do. `found` is the object as read from the API server; `wanted` the one that was to be created;
/// `own_labels` those with the names of backup and restore, in which both may differ.
pub fn compare(
    mut found: Value,
    wanted: &Value,
    policy: Option<ExistingPolicy>,
    own_labels: &[&'static str],
) -> Existing {
    if sanitise::strip(&mut found).is_err() {
        return Existing::Same;
    }
    let update = policy == Some(ExistingPolicy::Update);
    let labels = labels_of(wanted, own_labels);
    let old_labels = found.pointer("/metadata/labels").cloned();
    set_labels(&mut found, &labels);
    if found == *wanted {
        return if update { Existing::Labels { patch: label_patch(&labels) } } else { Existing::Same };
    }
    if wanted["kind"] == "ServiceAccount" && wanted["apiVersion"] == "v1" {
        let merged = merged_account(&found, wanted);
        let patch = merge_patch(&found, &merged);
        return match patch {
            None => Existing::Same,
            Some(patch) => Existing::Merge { patch, labels: update.then(|| label_patch(&labels)) },
        };
    }
    if update {
        // The current labels, so that the patch updates them.
        found["metadata"]["labels"] = old_labels.unwrap_or_else(|| json!({}));
        let patch = merge_patch(&found, wanted).unwrap_or_else(|| label_patch(&labels));
        return Existing::Merge { patch, labels: Some(label_patch(&labels)) };
    }
    Existing::Different { warning: different(wanted, policy) }
}

/// Upstream's message, which depends on whether the policy is set explicitly.
fn different(wanted: &Value, policy: Option<ExistingPolicy>) -> String {
    let text = |pointer: &str| wanted.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (kind, name) = (text("/kind"), text("/metadata/name"));
    let what = match policy {
        None => format!("{kind}:{name}"),
        Some(_) => format!("{kind} {name:?}"),
    };
    format!(
        "could not restore, {what} already exists. Warning: the in-cluster version is different than the backed-up version"
    )
}

/// Whether this restore created the object, in an earlier run of the server. `restore`: the label with the name of the
/// restore, and that name.
pub fn is_ours(found: &Value, restore: (&str, &str)) -> bool {
    let (label, name) = restore;
    found.pointer("/metadata/labels").and_then(|labels| labels.get(label)).and_then(Value::as_str)
        == Some(&crate::label::value(name))
}

/// Whether an object was created after the Restore began. Its label may name an earlier Restore of the same name.
pub fn is_new(found: &Value, begun: Option<Timestamp>) -> bool {
    let made = found.pointer("/metadata/creationTimestamp").and_then(Value::as_str);
    let made = made.and_then(|text| text.parse::<Timestamp>().ok());
    made.zip(begun).is_none_or(|(made, begun)| made >= begun)
}

fn labels_of(wanted: &Value, names: &[&'static str]) -> Vec<(&'static str, Value)> {
    let label = |name: &&'static str| {
        let value = wanted.pointer("/metadata/labels").and_then(|labels| labels.get(*name));
        (*name, value.cloned().unwrap_or_else(|| json!("")))
    };
    names.iter().map(label).collect()
}

fn set_labels(object: &mut Value, labels: &[(&str, Value)]) {
    let place = &mut object["metadata"]["labels"];
    if !place.is_object() {
        *place = json!({});
    }
    for (name, value) in labels {
        place[*name] = value.clone();
    }
}

fn label_patch(labels: &[(&str, Value)]) -> Value {
    let labels: Map<String, Value> =
        labels.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    json!({"metadata": {"labels": labels}})
}

/// The cluster's service account plus the secrets, labels and annotations of the backup that it lacks.
fn merged_account(found: &Value, wanted: &Value) -> Value {
    let mut merged = found.clone();
    for list in ["secrets", "imagePullSecrets"] {
        for reference in wanted[list].as_array().into_iter().flatten() {
            let known = found[list].as_array().into_iter().flatten();
            if known.into_iter().all(|other| other["name"] != reference["name"]) {
                if !merged[list].is_array() {
                    merged[list] = json!([]);
                }
                if let Some(items) = merged[list].as_array_mut() {
                    items.push(reference.clone());
                }
            }
        }
    }
    for map in ["labels", "annotations"] {
        for (key, value) in wanted["metadata"][map].as_object().into_iter().flatten() {
            if merged["metadata"][map].get(key).is_none() {
                merged["metadata"][map][key] = value.clone();
            }
        }
    }
    merged
}

/// The JSON merge patch (RFC 7386) that turns `from` into `to`; None if they are equal.
pub fn merge_patch(from: &Value, to: &Value) -> Option<Value> {
    if from == to {
        return None;
    }
    let (Some(old), Some(new)) = (from.as_object(), to.as_object()) else { return Some(to.clone()) };
    let mut patch = Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in new {
        let change = match old.get(key) {
            Some(before) => merge_patch(before, value),
            None => Some(value.clone()),
        };
        if let Some(change) = change {
            patch.insert(key.clone(), change);
        }
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKUP: &str = "example.com/backup";
    const RESTORE: &str = "example.com/restore";

    fn compare(found: Value, wanted: &Value, policy: Option<ExistingPolicy>) -> Existing {
        super::compare(found, wanted, policy, &[BACKUP, RESTORE])
    }

    fn wanted(kind: &str, rest: &Value) -> Value {
        let labels = json!({BACKUP: "b", RESTORE: "r"});
        let mut object =
            json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "x", "labels": labels}});
        for (key, value) in rest.as_object().unwrap() {
            object[key] = value.clone();
        }
        object
    }

    fn found(kind: &str, rest: &Value) -> Value {
        let mut object = wanted(kind, rest);
        object["metadata"] = json!({"name": "x", "uid": "u", "resourceVersion": "1",
            "managedFields": [{"operation": "Update", "manager": "other"}]});
        object
    }

    #[test]
    fn an_equal_object_is_left_alone_and_gets_new_labels_only_with_update() {
        let data = json!({"data": {"a": "1"}});
        let (found, wanted) = (found("ConfigMap", &data), wanted("ConfigMap", &data));
        assert_eq!(compare(found.clone(), &wanted, None), Existing::Same);
        assert_eq!(compare(found.clone(), &wanted, Some(ExistingPolicy::None)), Existing::Same);
        let Existing::Labels { patch } = compare(found, &wanted, Some(ExistingPolicy::Update)) else {
            panic!("labels are brought up to date");
        };
        assert_eq!(patch["metadata"]["labels"][RESTORE], "r");
    }

    #[test]
    fn a_different_object_stays_with_upstreams_message() {
        let (found, wanted) = (
            found("ConfigMap", &json!({"data": {"a": "2"}})),
            wanted("ConfigMap", &json!({"data": {"a": "1"}})),
        );
        let warning = |policy: Option<ExistingPolicy>| match compare(found.clone(), &wanted, policy) {
            Existing::Different { warning } => warning,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            warning(None),
            "could not restore, ConfigMap:x already exists. Warning: the in-cluster version is different than the backed-up version"
        );
        assert!(
            warning(Some(ExistingPolicy::None)).starts_with("could not restore, ConfigMap \"x\" already")
        );
    }

    #[test]
    fn update_patches_the_difference_and_the_labels() {
        let (found, wanted) = (
            found("ConfigMap", &json!({"data": {"a": "2", "b": "x"}})),
            wanted("ConfigMap", &json!({"data": {"a": "1"}})),
        );
        let Existing::Merge { patch, labels } = compare(found, &wanted, Some(ExistingPolicy::Update)) else {
            panic!("it differs");
        };
        assert_eq!(patch["data"], json!({"a": "1", "b": null}));
        assert_eq!(patch["metadata"], labels.unwrap()["metadata"]);
    }

    #[test]
    fn a_service_account_is_merged_and_the_cluster_wins() {
        let mut mine = found("ServiceAccount", &json!({"secrets": [{"name": "a"}]}));
        mine["metadata"]["annotations"] = json!({"k": "cluster"});
        let mut theirs = wanted(
            "ServiceAccount",
            &json!({"secrets": [{"name": "b"}], "imagePullSecrets": [{"name": "p"}]}),
        );
        theirs["metadata"]["annotations"] = json!({"k": "backup", "l": "backup"});
        let Existing::Merge { patch, labels } = compare(mine, &theirs, None) else { panic!("it differs") };
        assert_eq!(patch["secrets"], json!([{"name": "a"}, {"name": "b"}]));
        assert_eq!(patch["imagePullSecrets"], json!([{"name": "p"}]));
        assert_eq!(patch["metadata"], json!({"annotations": {"l": "backup"}}));
        assert_eq!(labels, None);
    }

    #[test]
    fn our_own_objects_are_known_by_their_label() {
        assert!(is_ours(&wanted("Secret", &json!({})), (RESTORE, "r")));
        assert!(!is_ours(&wanted("Secret", &json!({})), (BACKUP, "r")));
        assert!(!is_ours(&found("Secret", &json!({})), (RESTORE, "r")));
    }
}
