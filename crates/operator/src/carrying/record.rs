//! One object in the cluster that is carried to its end: reading and writing it, as the very object that is meant.

use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use lifeboat_cluster::{ApiError, Attempt, MANAGER, objects};
use serde_json::Value;

use crate::context::Context;

/// How often a patch is tried that meets others.
const TRIES: u32 = 3;

/// An object by name and UID.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) api: Api<DynamicObject>,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// Objects of a kind in Lifeboat's namespace.
pub(crate) fn api<K: Resource<DynamicType = ()>>(context: &Context) -> Api<DynamicObject> {
    objects::namespaced(&context.client, &context.settings.namespace, &objects::resource_of::<K>())
}

impl Place {
    pub(crate) fn of<K: Resource<DynamicType = ()>>(context: &Context, object: &K) -> Self {
        let meta = object.meta();
        Self {
            api: api::<K>(context),
            kind: K::kind(&()).into_owned(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
        }
    }

    /// Merges a patch. False where the object is gone, or another has its name.
    pub(crate) async fn write(&self, mut patch: Value) -> Result<bool, ApiError> {
        // The API server refuses the change of another object's UID.
        patch["metadata"]["uid"] = Value::String(self.uid.clone());
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let mut tries = 0;
        loop {
            let written = self.api.patch(&self.name, &params, &Patch::Merge(&patch)).await;
            match written.attempt(format!("update {} {}", self.kind, self.name)) {
                Ok(_) => return Ok(true),
                Err(error) if error.is_not_found() => return Ok(false),
                Err(error) if error.is_conflict() => {
                    tries += 1;
                    if !self.is_there().await? {
                        return Ok(false);
                    }
                    // Others were writing, too.
                    if tries >= TRIES {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the name still leads to the object that is meant.
    async fn is_there(&self) -> Result<bool, ApiError> {
        let found =
            self.api.get_opt(&self.name).await.attempt(format!("read {} {}", self.kind, self.name))?;
        Ok(found.is_some_and(|found| found.uid().as_deref() == Some(self.uid.as_str())))
    }
}
