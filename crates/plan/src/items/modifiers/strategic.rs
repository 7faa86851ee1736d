//! Strategic merge patch: like a merge patch, but lists of named elements are merged element by element, and `$patch`
//! directives delete or replace. Kubernetes' own types define which field is the merge key of a list; types of other
//! groups have no such definition and are refused, as upstream does.

use serde_json::{Map, Value};

/// Why a patch cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum StrategicError {
    #[error(
        "no kind {0:?} is registered for version {1:?}; use patches or mergePatches for custom resources"
    )]
    UnknownKind(String, String),
    #[error("{0:?} is not a directive; use delete, replace or merge")]
    Directive(String),
    #[error("an item for list {0:?} has no {1:?}")]
    NoKey(String, &'static str),
}

pub(super) fn merge(object: &mut Value, patch: &Value) -> Result<(), StrategicError> {
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let group = version.split_once('/').map_or("", |(group, _)| group);
    if group.contains('.') && !group.ends_with(".k8s.io") {
        return Err(StrategicError::UnknownKind(kind, version));
    }
    merge_value(object, patch, "")
}

fn merge_value(target: &mut Value, patch: &Value, inside: &str) -> Result<(), StrategicError> {
    let Some(changes) = patch.as_object() else {
        *target = patch.clone();
        return Ok(());
    };
    match changes.get("$patch").and_then(Value::as_str) {
        None | Some("merge") => {}
        Some("replace") => {
            *target = Value::Object(without_directives(changes));
            return Ok(());
        }
        Some("delete") => {
            *target = Value::Object(Map::new());
            return Ok(());
        }
        Some(other) => return Err(StrategicError::Directive(other.to_owned())),
    }
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(fields) = target.as_object_mut() else { return Ok(()) };
    if let Some(kept) = changes.get("$retainKeys").and_then(Value::as_array) {
        fields.retain(|key, _| kept.iter().any(|name| name == key));
    }
    for (key, change) in changes {
        if let Some(list) = key.strip_prefix("$deleteFromPrimitiveList/") {
            delete_primitives(fields, list, change);
        } else if !key.starts_with('$') {
            merge_field(fields, key, change, inside)?;
        }
    }
    Ok(())
}

fn merge_field(
    fields: &mut Map<String, Value>,
    key: &str,
    change: &Value,
    inside: &str,
) -> Result<(), StrategicError> {
    if change.is_null() {
        fields.remove(key);
        return Ok(());
    }
    let place = fields.entry(key.to_owned()).or_insert(Value::Null);
    match change.as_array() {
        None => merge_value(place, change, key),
        Some(items) => merge_list(place, items, key, inside),
    }
}

fn merge_list(place: &mut Value, items: &[Value], list: &str, inside: &str) -> Result<(), StrategicError> {
    let replaces = items
        .iter()
        .any(|item| item["$patch"] == "replace" && item.as_object().is_some_and(|item| item.len() == 1));
    let Some(kept) = (if replaces { None } else { place.as_array_mut() }) else {
        let all = items.iter().filter(|item| item["$patch"].is_null());
        *place = Value::Array(all.cloned().collect());
        return Ok(());
    };
    if list == "finalizers" {
        for item in items.iter().filter(|item| !kept.contains(item)).cloned().collect::<Vec<_>>() {
            kept.push(item);
        }
        return Ok(());
    }
    let Some(name) = merge_key(list, inside) else {
        *place = Value::Array(items.to_vec());
        return Ok(());
    };
    for item in items {
        let key = item.get(name).ok_or_else(|| StrategicError::NoKey(list.to_owned(), name))?;
        let at = kept.iter().position(|known| known.get(name) == Some(key));
        match (item["$patch"].as_str(), at) {
            (Some("delete"), Some(at)) => {
                kept.remove(at);
            }
            (Some("delete"), None) => {}
            (_, Some(at)) => merge_value(&mut kept[at], item, list)?,
            (_, None) => kept.push(
                item.as_object().map_or_else(|| item.clone(), |item| Value::Object(without_directives(item))),
            ),
        }
    }
    Ok(())
}

fn delete_primitives(fields: &mut Map<String, Value>, list: &str, gone: &Value) {
    let gone = gone.as_array().cloned().unwrap_or_default();
    if let Some(items) = fields.get_mut(list).and_then(Value::as_array_mut) {
        items.retain(|item| !gone.contains(item));
    }
}

fn without_directives(fields: &Map<String, Value>) -> Map<String, Value> {
    let kept = fields.iter().filter(|(key, _)| !key.starts_with('$'));
    kept.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The merge key of a list; None for lists that are replaced as a whole.
fn merge_key(list: &str, inside: &str) -> Option<&'static str> {
    Some(match list {
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "volumes"
        | "env"
        | "imagePullSecrets"
        | "secrets"
        | "webhooks"
        | "resourceClaims"
        | "schedulingGates"
        | "matchConditions" => "name",
        "volumeMounts" => "mountPath",
        "volumeDevices" => "devicePath",
        "ports" if inside == "spec" => "port",
        "ports" => "containerPort",
        "hostAliases" | "podIPs" | "hostIPs" => "ip",
        "topologySpreadConstraints" => "topologyKey",
        "conditions" | "addresses" => "type",
        "ownerReferences" => "uid",
        "taints" => "key",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"finalizers": ["a"]}, "spec": {
            "containers": [{"name": "main", "image": "old", "env": [{"name": "A", "value": "1"}]}, {"name": "side"}],
            "tolerations": [{"key": "x"}]}})
    }

    #[test]
    fn named_items_are_merged_others_replaced() {
        let mut object = pod();
        let patch = json!({"metadata": {"finalizers": ["b"]}, "spec": {
            "containers": [{"name": "main", "image": "new", "env": [{"name": "B", "value": "2"}]},
                {"name": "side", "$patch": "delete"}, {"name": "third"}],
            "tolerations": [{"key": "y"}]}});
        merge(&mut object, &patch).unwrap();
        let main = json!({"name": "main", "image": "new",
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]});
        assert_eq!(object["spec"]["containers"], json!([main, {"name": "third"}]));
        assert_eq!(object["spec"]["tolerations"], json!([{"key": "y"}]));
        assert_eq!(object["metadata"]["finalizers"], json!(["a", "b"]));
    }

    #[test]
    fn directives_replace_and_delete() {
        let mut object = pod();
        let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]},
            "spec": {"$patch": "replace", "containers": [{"name": "only"}]}});
        merge(&mut object, &patch).unwrap();
        assert_eq!(object["spec"], json!({"containers": [{"name": "only"}]}));
        assert_eq!(object["metadata"]["finalizers"], json!([]));
        assert!(merge(&mut object, &json!({"spec": {"$patch": "burn"}})).is_err());
    }

    #[test]
    fn custom_resources_are_refused() {
        let mut widget = json!({"apiVersion": "example.com/v1", "kind": "Widget"});
        let error = merge(&mut widget, &json!({})).unwrap_err();
        assert_eq!(error, StrategicError::UnknownKind("Widget".into(), "example.com/v1".into()));
    }

    #[test]
    fn ports_of_services_and_containers_have_their_own_names() {
        let mut service =
            json!({"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80, "name": "a"}]}});
        merge(&mut service, &json!({"spec": {"ports": [{"port": 80, "name": "b"}]}})).unwrap();
        assert_eq!(service["spec"]["ports"], json!([{"port": 80, "name": "b"}]));
    }
}
