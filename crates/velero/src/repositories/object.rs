//! The BackupRepository of a repository: found by its labels (Velero generates its name), created if it does not
//! exist, and updated with the state of the repository.

use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use lifeboat_api::velero::BackupRepository;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::velero::backup_repository::{self, EMPTIED, RepositoryId};
use serde_json::{Value, json};

use crate::context::Context;

fn api(context: &Context) -> Api<DynamicObject> {
    let resource = objects::resource_of::<BackupRepository>();
    objects::namespaced(&context.client, &context.namespace, &resource)
}

pub(super) async fn find(context: &Context, about: &RepositoryId) -> Result<Option<DynamicObject>, ApiError> {
    let listed = api(context).list(&ListParams::default().labels(&about.selector())).await;
    let mut found = listed.attempt("list BackupRepositories")?.items;
    found.sort_by_key(ResourceExt::name_any);
    Ok(found.into_iter().find(|object| about.is_of(&objects::to_json(object))))
}

/// Records whether Lifeboat forgot the last snapshot, if that changed.
pub(super) async fn set_emptied(
    context: &Context,
    object: &DynamicObject,
    emptied: bool,
) -> Result<(), ApiError> {
    if object.annotations().contains_key(EMPTIED) == emptied {
        return Ok(());
    }
    let since = emptied.then(|| lifeboat_plan::time::seconds(context.now()));
    change(context, object, json!({"metadata": {"annotations": {EMPTIED: since}}})).await
}

/// Merges a patch, even if others changed the object in the meantime.
pub(crate) async fn change(context: &Context, object: &DynamicObject, patch: Value) -> Result<(), ApiError> {
    let patched = api(context).patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await;
    patched.attempt("change BackupRepository").map(drop)
}

/// Records something for the controller of repositories.
pub(super) async fn note(context: &Context, about: &RepositoryId, patch: Value) -> Result<(), ApiError> {
    match find(context, about).await? {
        Some(object) => change(context, &object, patch).await,
        None => Ok(()),
    }
}

/// The BackupRepository of this repository; created if it does not exist.
pub(super) async fn ensure(
    context: &Context,
    about: &RepositoryId,
    identifier: &str,
) -> Result<DynamicObject, ApiError> {
    if let Some(object) = find(context, about).await? {
        return Ok(object);
    }
    let frequency = context.movers.settings().maintenance_frequency;
    let object = backup_repository::object(about, identifier, frequency);
    let attempt = "create BackupRepository";
    let object: DynamicObject =
        serde_json::from_value(object).map_err(kube::Error::SerdeError).attempt(attempt)?;
    match api(context).create(&PostParams::default(), &object).await {
        // Another replica created it, or there is an object without our labels.
        Err(kube::Error::Api(status)) if status.code == 409 => {
            api(context).get(&object.name_any()).await.attempt("read BackupRepository")
        }
        created => created.attempt(attempt),
    }
}

/// Writes whether the repository can be used, if that changed.
pub(crate) async fn show(
    context: &Context,
    object: &DynamicObject,
    problem: Option<&str>,
) -> Result<(), ApiError> {
    let phase = if problem.is_none() { "Ready" } else { "NotReady" };
    let message = problem.unwrap_or_default();
    let text = |pointer: &str| object.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    if text("/status/phase") == phase && text("/status/message") == message {
        return Ok(());
    }
    let message = if message.is_empty() { json!(null) } else { json!(message) };
    objects::merge(&api(context), object, json!({"status": {"phase": phase, "message": message}}))
        .await
        .map(drop)
}
