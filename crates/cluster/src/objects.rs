//! Objects that are read without relying on their schema: one broken object must not hide the others, so controllers
//! watch `DynamicObject` and convert one object at a time.

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{ApiError, Attempt, MANAGER};

/// The API resource of a kind.
pub fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

/// The API resource of one of our own kinds.
pub fn resource_of<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

pub fn namespaced(client: &Client, namespace: &str, resource: &ApiResource) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, resource)
}

/// The object as JSON, with its kind.
pub fn to_json(object: &DynamicObject) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

/// Converts the object to its type; the error names the field that cannot be read.
pub fn typed<K: DeserializeOwned>(object: &DynamicObject) -> Result<K, serde_json::Error> {
    serde_json::from_value(to_json(object))
}

/// Merges `patch` into the object; fails if the object was changed since it was read. Group velero.io has no status
/// subresource: status is written together with everything else.
pub async fn merge(
    api: &Api<DynamicObject>,
    object: &DynamicObject,
    patch: Value,
) -> Result<DynamicObject, ApiError> {
    change(api, object, patch, Patch::Merge).await
}

/// Merges `patch` into an object of a built-in kind, whose lists have keys (strategic merge): list elements that the
/// patch does not name stay. Fails if the object was changed since it was read.
pub async fn merge_lists(
    api: &Api<DynamicObject>,
    object: &DynamicObject,
    patch: Value,
) -> Result<DynamicObject, ApiError> {
    change(api, object, patch, Patch::Strategic).await
}

async fn change(
    api: &Api<DynamicObject>,
    object: &DynamicObject,
    mut patch: Value,
    way: fn(Value) -> Patch<Value>,
) -> Result<DynamicObject, ApiError> {
    if let Some(version) = object.resource_version() {
        patch["metadata"]["resourceVersion"] = Value::String(version);
    }
    let name = object.name_any();
    api.patch(
        &name,
        &PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() },
        &way(patch),
    )
    .await
    .attempt(format!("update {} {name}", kind_of(object)))
}

/// Deletes this object, not a later one with the same name. It need not exist any more.
pub async fn delete(api: &Api<DynamicObject>, object: &DynamicObject) -> Result<(), ApiError> {
    let name = object.name_any();
    let same = Preconditions { uid: object.uid(), resource_version: None };
    match api.delete(&name, &DeleteParams::default().preconditions(same)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        deleted => deleted.attempt(format!("delete {} {name}", kind_of(object))).map(drop),
    }
}

fn kind_of(object: &DynamicObject) -> String {
    object.types.as_ref().map_or_else(|| "object".to_owned(), |types| types.kind.clone())
}
