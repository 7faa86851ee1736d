//! The object of a Repository: reads it, annotates it, and writes its status through the status subresource.

use kube::Api;
use kube::api::{Patch, PatchParams};
use lifeboat_api::stash::{Repository, RepositoryStatus};
use lifeboat_cluster::{ApiError, Attempt, MANAGER};
use lifeboat_control::Core;
use serde_json::{Map, Value, json};

use super::RepositoryProblem;

/// How often writing a status is tried if others change the object.
pub(super) const TRIES: u32 = 5;

pub(super) fn api(core: &Core, namespace: &str) -> Api<Repository> {
    Api::namespaced(core.client.clone(), namespace)
}

/// Reads the current Repository.
pub(super) async fn read(core: &Core, namespace: &str, name: &str) -> Result<Repository, RepositoryProblem> {
    let found =
        api(core, namespace).get_opt(name).await.attempt(format!("read Repository {namespace}/{name}"))?;
    found.ok_or_else(|| {
        RepositoryProblem::Unusable(format!(
            "Repository '{name}' does not exist in namespace '{namespace}': create it, or correct the reference to it"
        ))
    })
}

/// Its namespace and name.
pub(super) fn parts(repository: &Repository) -> (&str, &str) {
    let metadata = &repository.metadata;
    (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
}

/// Merges into the object, even if it was changed in the meantime. An object that no longer exists needs no notes.
pub(super) async fn annotate(core: &Core, namespace: &str, name: &str, patch: Value) -> Result<(), ApiError> {
    let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
    match api(core, namespace).patch(name, &params, &Patch::Merge(patch)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        patched => patched.attempt(format!("change Repository {namespace}/{name}")).map(drop),
    }
}

/// Merges into the object if it was not changed since it was read. Returns the new object.
pub(super) async fn merge(
    core: &Core,
    repository: &Repository,
    mut patch: Value,
) -> Result<Repository, ApiError> {
    let (namespace, name) = parts(repository);
    patch["metadata"]["resourceVersion"] = json!(repository.metadata.resource_version);
    let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
    let patched = api(core, namespace).patch(name, &params, &Patch::Merge(patch)).await;
    patched.attempt(format!("change Repository {namespace}/{name}"))
}

/// Writes the status if it differs, and the object was not changed since it was read. Returns the new object.
pub(super) async fn write_status(
    core: &Core,
    repository: &Repository,
    status: &RepositoryStatus,
) -> Result<Repository, ApiError> {
    let old = repository.status.clone().unwrap_or_default();
    let Some(patch) = status_patch(&old, status) else { return Ok(repository.clone()) };
    let (namespace, name) = parts(repository);
    let patch = json!({
        "metadata": {"resourceVersion": repository.metadata.resource_version},
        "status": patch,
    });
    let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
    let patched = api(core, namespace).patch_status(name, &params, &Patch::Merge(patch)).await;
    patched.attempt(format!("update the status of Repository {namespace}/{name}"))
}

/// Changes the current status; tries again if another writer was first. Does nothing if the object no longer exists.
pub(super) async fn change_status(
    core: &Core,
    namespace: &str,
    name: &str,
    change: impl Fn(&Repository) -> RepositoryStatus,
) -> Result<(), ApiError> {
    let mut tries = 0;
    loop {
        let found = api(core, namespace)
            .get_opt(name)
            .await
            .attempt(format!("read Repository {namespace}/{name}"))?;
        let Some(repository) = found else { return Ok(()) };
        match write_status(core, &repository, &change(&repository)).await {
            Err(error) if error.is_conflict() && tries < TRIES => tries += 1,
            Err(error) if error.is_not_found() => return Ok(()),
            other => return other.map(drop),
        }
    }
}

/// The merge patch from one status to another; None if they are the same.
fn status_patch(old: &RepositoryStatus, new: &RepositoryStatus) -> Option<Value> {
    if old == new {
        return None;
    }
    let fields = |status: &RepositoryStatus| match serde_json::to_value(status) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let mut patch = fields(new);
    for gone in fields(old).into_iter().map(|(name, _)| name) {
        patch.entry(gone).or_insert(Value::Null);
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_is_gone_is_removed_and_no_change_is_no_patch() {
        let old = RepositoryStatus {
            integrity: Some(true),
            snapshot_count: Some(3),
            ..RepositoryStatus::default()
        };
        let new = RepositoryStatus { snapshot_count: Some(4), ..RepositoryStatus::default() };
        assert_eq!(status_patch(&old, &new), Some(json!({"integrity": null, "snapshotCount": 4})));
        assert_eq!(status_patch(&new, &new), None);
    }
}
