//! Completes the schema that kube's derive makes for a version: adds the fields that every object has, formats
//! descriptions, and removes the `null` that `Option` adds to the values of enums.
//!
//! Pure functions over one CRD version; called by [`super::Crd`] only.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinitionVersion, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

/// The fields at the root of every object, with their type and description. `metadata` must have no description: the
/// API server accepts only the type there, and shows its own description.
const ROOT_FIELDS: [(&str, &str, Option<&str>); 3] = [
    ("apiVersion", "string", Some("Group and version of the API this object is written in.")),
    ("kind", "string", Some("Kind of this object, in CamelCase. It cannot be changed.")),
    ("metadata", "object", None),
];

/// Descriptions of `spec` and `status`, whose types are described by their fields.
const PARTS: [(&str, &str); 2] = [
    ("spec", "Specification of the object."),
    ("status", "Status of the object, written by the server and by the components that do the work."),
];

/// Applies everything that holds for every kind.
pub(super) fn version(version: &mut CustomResourceDefinitionVersion) {
    let Some(root) = root(version) else { return };
    root.title = None;
    let properties = root.properties.get_or_insert_default();
    for (name, type_, description) in ROOT_FIELDS {
        properties.entry(name.to_owned()).or_insert_with(|| JSONSchemaProps {
            type_: Some(type_.to_owned()),
            description: description.map(str::to_owned),
            ..JSONSchemaProps::default()
        });
    }
    for (name, description) in PARTS {
        if let Some(part) = properties.get_mut(name) {
            part.description.get_or_insert_with(|| description.to_owned());
        }
    }
    each_node(root, &mut |node| {
        node.description = node.description.take().map(|text| reflow(&text));
        drop_null_from_enum(node);
    });
}

/// Makes `spec` optional, as in Velero's CRDs. A default is possible only if `{}` is a valid spec: the API server
/// checks it against the schema.
pub(super) fn make_spec_optional(version: &mut CustomResourceDefinitionVersion) {
    let Some(root) = root(version) else { return };
    if let Some(required) = &mut root.required {
        required.retain(|field| field != "spec");
    }
    root.required.take_if(|required| required.is_empty());
    if let Some(spec) = root.properties.as_mut().and_then(|fields| fields.get_mut("spec"))
        && spec.required.is_none()
    {
        spec.default = Some(JSON(serde_json::json!({})));
    }
}

fn root(version: &mut CustomResourceDefinitionVersion) -> Option<&mut JSONSchemaProps> {
    version.schema.as_mut()?.open_api_v3_schema.as_mut()
}

/// An optional enum is a field that may be left out, not one that may be `null`.
fn drop_null_from_enum(node: &mut JSONSchemaProps) {
    if let Some(values) = &mut node.enum_ {
        values.retain(|value| !value.0.is_null());
        node.nullable = None;
    }
}

/// Joins the lines of a doc comment into paragraphs: `kubectl explain` wraps lines itself.
fn reflow(text: &str) -> String {
    let paragraph = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.split("\n\n").map(paragraph).collect::<Vec<_>>().join("\n\n")
}

fn each_node(node: &mut JSONSchemaProps, change: &mut impl FnMut(&mut JSONSchemaProps)) {
    change(node);
    for field in node.properties.iter_mut().flatten().map(|(_, field)| field) {
        each_node(field, change);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut node.items {
        each_node(items, change);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut node.additional_properties {
        each_node(values, change);
    }
}
