//! Objects of a cluster or a backup as JSON with a few accessors, and identifiers of other objects.

use std::ops::{Deref, DerefMut};

use lifeboat_plugin_protocol::generated::ResourceIdentifier;
use serde_json::{Map, Value};

/// An object: a Pod, a Backup, anything. Dereferences to the [`Value`] inside.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object(pub Value);

impl Object {
    /// Empty if it has none.
    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// Empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.text("/metadata/namespace")
    }

    pub fn kind(&self) -> &str {
        self.text("/kind")
    }

    pub fn label(&self, name: &str) -> Option<&str> {
        self.0.get("metadata")?.get("labels")?.get(name)?.as_str()
    }

    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.0.get("metadata")?.get("annotations")?.get(name)?.as_str()
    }

    pub fn set_annotation(&mut self, name: &str, value: &str) {
        self.set("annotations", name, value);
    }

    pub fn set_label(&mut self, name: &str, value: &str) {
        self.set("labels", name, value);
    }

    fn set(&mut self, field: &str, name: &str, value: &str) {
        let metadata = entry(&mut self.0, "metadata");
        if let Value::Object(map) = entry(metadata, field) {
            map.insert(name.to_owned(), Value::from(value));
        }
    }

    fn text(&self, pointer: &str) -> &str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }
}

/// The field as a map, created if it is not one.
fn entry<'a>(value: &'a mut Value, name: &str) -> &'a mut Value {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let field = &mut value[name];
    if !field.is_object() {
        *field = Value::Object(Map::new());
    }
    field
}

impl Deref for Object {
    type Target = Value;
    fn deref(&self) -> &Value {
        &self.0
    }
}

impl DerefMut for Object {
    fn deref_mut(&mut self) -> &mut Value {
        &mut self.0
    }
}

impl From<Value> for Object {
    fn from(value: Value) -> Self {
        Self(value)
    }
}

/// Identifies an object, without its version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceId {
    /// Empty for the core group.
    pub group: String,
    /// The type's plural name: `pods`.
    pub resource: String,
    /// Empty for cluster-scoped objects. In a restore, the namespace of the backup.
    pub namespace: String,
    pub name: String,
}

impl ResourceId {
    /// An object of the core group; set `group` for others.
    pub fn new(resource: impl Into<String>, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        let (resource, namespace, name) = (resource.into(), namespace.into(), name.into());
        Self { group: String::new(), resource, namespace, name }
    }

    #[must_use]
    pub fn in_group(mut self, group: impl Into<String>) -> Self {
        self.group = group.into();
        self
    }
}

impl From<ResourceIdentifier> for ResourceId {
    fn from(wire: ResourceIdentifier) -> Self {
        Self { group: wire.group, resource: wire.resource, namespace: wire.namespace, name: wire.name }
    }
}

impl From<ResourceId> for ResourceIdentifier {
    fn from(id: ResourceId) -> Self {
        Self { group: id.group, resource: id.resource, namespace: id.namespace, name: id.name }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn annotations_can_be_set_wherever_metadata_is() {
        for value in [json!({}), json!(null), json!({"metadata": {"annotations": null}})] {
            let mut object = Object(value);
            object.set_annotation("a/b", "c");
            assert_eq!(object.annotation("a/b"), Some("c"));
        }
    }
}
