//! Objects of kinds that are read without trusting their shape: one broken object must not hide the others, so
//! controllers watch `DynamicObject` and read the typed form one object at a time.

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{ApiError, Attempt, MANAGER};

/// How to reach a kind of a group.
pub fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

/// How to reach one of our own kinds.
pub fn resource_of<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

pub fn namespaced(client: &Client, namespace: &str, resource: &ApiResource) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, resource)
}

/// The object as plain JSON, with its kind.
pub fn to_json(object: &DynamicObject) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

/// The typed form; the error says what in the object cannot be read.
pub fn typed<K: DeserializeOwned>(object: &DynamicObject) -> Result<K, serde_json::Error> {
    serde_json::from_value(to_json(object))
}

/// Merges `patch` into the object, on the condition that nobody changed it since it was read. Group velero.io has no
/// status subresource: status is written like everything else.
pub async fn merge(
    api: &Api<DynamicObject>,
    object: &DynamicObject,
    patch: Value,
) -> Result<DynamicObject, ApiError> {
    change(api, object, patch, Patch::Merge).await
}

/// The same for kinds of Kubernetes itself, whose lists have keys: elements that the patch does not name stay.
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

/// Deletes this very object, not one that took its name since; that it is gone already is fine.
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
