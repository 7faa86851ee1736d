//! A CRD's schema as a flat list of facts, so that two CRDs can be compared and upstream's can be kept in the
//! repository without its texts.
//!
//! Takes CRD objects as JSON; gives [`Facts`] for each kind, by path: `.spec.hooks.resources[].name`, with
//! `[]` for a list's items and `{}` for a map's values.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Everything known about one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Kind {
    pub(crate) scope: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) short_names: Vec<String>,
    pub(crate) status_subresource: bool,
    /// Printer columns: name, then type and path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) columns: BTreeMap<String, (String, String)>,
    pub(crate) fields: BTreeMap<String, Node>,
}

/// Whatever a schema node says, but for its children and its text.
pub(crate) type Node = BTreeMap<String, Value>;

/// Kinds by CRD name and version: `backups.velero.io/v1`.
pub(crate) type Facts = BTreeMap<String, Kind>;

/// The facts of one CRD, one entry for each version.
pub(crate) fn of(crd: &Value) -> Facts {
    let name = text(&crd["metadata"]["name"]);
    list(&crd["spec"]["versions"])
        .map(|version| (format!("{name}/{}", text(&version["name"])), kind(crd, version)))
        .collect()
}

fn kind(crd: &Value, version: &Value) -> Kind {
    let column = |column: &Value| (text(&column["name"]), (text(&column["type"]), text(&column["jsonPath"])));
    let mut fields = BTreeMap::new();
    flatten("", &version["schema"]["openAPIV3Schema"], &mut fields);
    Kind {
        scope: text(&crd["spec"]["scope"]),
        short_names: list(&crd["spec"]["names"]["shortNames"]).map(text).collect(),
        status_subresource: version["subresources"].get("status").is_some(),
        columns: list(&version["additionalPrinterColumns"]).map(column).collect(),
        fields,
    }
}

fn flatten(path: &str, schema: &Value, fields: &mut BTreeMap<String, Node>) {
    let Some(schema) = schema.as_object() else { return };
    let mut node = Node::new();
    for (key, value) in schema {
        match (key.as_str(), value) {
            ("description" | "title", _) => {}
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    flatten(&format!("{path}.{name}"), property, fields);
                }
            }
            ("items", items) => flatten(&format!("{path}[]"), items, fields),
            ("additionalProperties", values @ Value::Object(_)) => {
                flatten(&format!("{path}{{}}"), values, fields);
            }
            _ => {
                node.insert(key.clone(), value.clone());
            }
        }
    }
    fields.insert(path.to_owned(), node);
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
