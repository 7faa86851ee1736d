//! Applies objects given as JSON with server-side apply, under our field manager. Called by install.

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind, TypeMeta};
use kube::{Api, Client};
use serde_json::Value;

use crate::{ApiError, Attempt, MANAGER};

/// The kind, namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectName {
    pub api_version: String,
    pub kind: String,
    pub namespace: Option<String>,
    pub name: String,
}

impl ObjectName {
    pub fn of(object: &Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        Self {
            api_version: text("/apiVersion").unwrap_or_default(),
            kind: text("/kind").unwrap_or_default(),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name").unwrap_or_default(),
        }
    }

    fn api(&self, client: &Client) -> Api<DynamicObject> {
        let types = TypeMeta { api_version: self.api_version.clone(), kind: self.kind.clone() };
        let gvk =
            GroupVersionKind::try_from(types).unwrap_or_else(|_| GroupVersionKind::gvk("", "v1", &self.kind));
        let resource = ApiResource::from_gvk(&gvk);
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        }
    }
}

impl std::fmt::Display for ObjectName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// Creates or updates the object; fields of other managers stay.
pub async fn apply(client: &Client, object: &Value) -> Result<ObjectName, ApiError> {
    let name = ObjectName::of(object);
    name.api(client)
        .patch(&name.name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(object))
        .await
        .attempt(format!("apply {name}"))?;
    Ok(name)
}

/// Deletes the object; false if it did not exist.
pub async fn delete(client: &Client, name: &ObjectName) -> Result<bool, ApiError> {
    match name.api(client).delete(&name.name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        deleted => deleted.attempt(format!("delete {name}")).map(|_| true),
    }
}
