//! Schema parts for `#[schemars(transform = …)]` and `#[schemars(schema_with = …)]` on fields, where the derives are
//! not enough.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::Value;

const MAP_TYPE: &str = "x-kubernetes-map-type";

/// Marks an object as atomic for server-side apply: the field manager that sets it owns all of it, as in
/// upstream's CRDs for selectors and references.
pub(crate) fn atomic(schema: &mut Schema) {
    schema.insert(MAP_TYPE.to_owned(), Value::from("atomic"));
}

/// [`atomic`], for the elements of a list.
pub(crate) fn atomic_items(schema: &mut Schema) {
    if let Some(Value::Object(items)) = schema.get_mut("items") {
        items.insert(MAP_TYPE.to_owned(), Value::from("atomic"));
    }
}

/// Bytes in base64, for k8s-openapi's `ByteString`, which has no schema of its own.
pub(crate) fn base64_bytes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "byte" })
}
