//! Applies patches to objects: JSON merge patch, JSON patch, strategic merge patch, server-side apply.

use lifeboat_cluster::testing::{Asked, merge};
use serde_json::{Value, json};

use super::answers::Refusal;

/// Whether a patch creates the object if it does not exist.
pub(super) fn is_apply(asked: &Asked) -> bool {
    asked.method == "PATCH" && asked.content_type.starts_with("application/apply-patch")
}

/// The object after the patch.
pub(super) fn patched(object: &Value, asked: &Asked) -> Result<Value, Refusal> {
    let mut object = object.clone();
    match asked.content_type.as_str() {
        "application/json-patch+json" => {
            let patch: json_patch::Patch =
                serde_json::from_value(asked.body.clone()).map_err(|_| Refusal(400, "BadRequest"))?;
            json_patch::patch(&mut object, &patch).map_err(|_| Refusal(422, "Invalid"))?;
        }
        "application/strategic-merge-patch+json" => strategic(&mut object, &asked.body),
        // An applied configuration: fields of other managers stay.
        _ => merge(&mut object, &asked.body),
    }
    Ok(object)
}

/// Merges elements of lists by their key; elements that the patch does not name stay. Directives (`$patch`) are not supported.
fn strategic(object: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (name, value) in fields {
        if value.is_null() {
            object.as_object_mut().unwrap().remove(name);
            continue;
        }
        match (&mut object[name], value) {
            (Value::Array(elements), Value::Array(new)) => merge_elements(elements, new, key_of(name)),
            (place, value) => strategic(place, value),
        }
    }
}

fn merge_elements(elements: &mut Vec<Value>, new: &[Value], key: &str) {
    if !new.iter().all(|element| element.get(key).is_some()) {
        *elements = new.to_vec();
        return;
    }
    for element in new {
        match elements.iter_mut().find(|known| known[key] == element[key]) {
            Some(known) => strategic(known, element),
            None => elements.push(element.clone()),
        }
    }
}

/// The merge key of a list of a built-in kind.
fn key_of(list: &str) -> &'static str {
    match list {
        "volumeMounts" => "mountPath",
        "ports" => "containerPort",
        "conditions" => "type",
        "ownerReferences" => "uid",
        _ => "name",
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::merge("merge-patch+json", json!({"list": [{"name": "b"}], "gone": null}),
        json!({"a": 1, "list": [{"name": "b"}]}))]
    #[case::json("json-patch+json", json!([{"op": "test", "path": "/a", "value": 1}, {"op": "remove", "path": "/gone"}]),
        json!({"a": 1, "list": [{"name": "a", "x": 1}]}))]
    #[case::strategic("strategic-merge-patch+json", json!({"list": [{"name": "b"}, {"name": "a", "y": 2}], "gone": null}),
        json!({"a": 1, "list": [{"name": "a", "x": 1, "y": 2}, {"name": "b"}]}))]
    #[case::apply("apply-patch+yaml", json!({"a": 2}),
        json!({"a": 2, "gone": true, "list": [{"name": "a", "x": 1}]}))]
    fn a_patch_changes_an_object(#[case] kind: &str, #[case] body: Value, #[case] expected: Value) {
        let object = json!({"a": 1, "gone": true, "list": [{"name": "a", "x": 1}]});
        let asked = Asked { content_type: format!("application/{kind}"), body, ..Asked::default() };
        assert_eq!(patched(&object, &asked).unwrap(), expected);
    }

    #[test]
    fn a_json_patch_whose_test_fails_changes_nothing_and_is_refused() {
        let body = json!([{"op": "test", "path": "/a", "value": 2}, {"op": "remove", "path": "/a"}]);
        let asked = Asked { content_type: "application/json-patch+json".into(), body, ..Asked::default() };
        assert_eq!(patched(&json!({"a": 1}), &asked).unwrap_err().0, 422);
    }
}
