//! The BackupRepository of a repository: found by its labels (Velero gives generated names), made where there is none, and
//! written with how the repository stands.

use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams, PostParams};
use lifeboat_api::velero::BackupRepository;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::backup_repository::{self, About};
use serde_json::json;

use super::Access;
use crate::context::Context;

/// The object of this repository.
pub(super) async fn ensure(context: &Context, access: &Access) -> Result<DynamicObject, ApiError> {
    let resource = objects::resource_of::<BackupRepository>();
    let api = objects::namespaced(&context.client, &context.settings.namespace, &resource);
    let about = About { location: &access.location, namespace: &access.namespace };
    let listed = api.list(&ListParams::default().labels(&about.selector())).await;
    let mut found = listed.attempt("list BackupRepositories")?.items;
    found.sort_by_key(ResourceExt::name_any);
    if let Some(object) = found.into_iter().find(|object| about.is_of(&objects::to_json(object))) {
        return Ok(object);
    }
    let frequency = context.settings.movers.maintenance_frequency;
    let object = backup_repository::object(about, &access.identifier, frequency);
    let attempt = "create BackupRepository";
    let object: DynamicObject =
        serde_json::from_value(object).map_err(kube::Error::SerdeError).attempt(attempt)?;
    match api.create(&PostParams::default(), &object).await {
        // Another replica, or an object without our labels.
        Err(kube::Error::Api(status)) if status.code == 409 => {
            api.get(&object.name_any()).await.attempt("read BackupRepository")
        }
        created => created.attempt(attempt),
    }
}

/// Writes how the repository stands, where that is new.
pub(crate) async fn show(
    context: &Context,
    object: &DynamicObject,
    stands: Result<(), String>,
) -> Result<(), ApiError> {
    let (phase, message) = match &stands {
        Ok(()) => ("Ready", ""),
        Err(words) => ("NotReady", words.as_str()),
    };
    let text =
        |pointer: &str| object.data.pointer(pointer).and_then(serde_json::Value::as_str).unwrap_or_default();
    if text("/status/phase") == phase && text("/status/message") == message {
        return Ok(());
    }
    let resource = objects::resource_of::<BackupRepository>();
    let api = objects::namespaced(&context.client, &context.settings.namespace, &resource);
    let message = if message.is_empty() { json!(null) } else { json!(message) };
    objects::merge(&api, object, json!({"status": {"phase": phase, "message": message}})).await.map(drop)
}
