//! A Restore that is being deleted: its files in storage go first, then its finalizer. Where the backup or its location is
//! gone there is nothing to delete from.

use std::time::Duration;

use kube::api::DynamicObject;
use kube::runtime::controller::Action;
use kube::{Api, ResourceExt};
use lifeboat_api::velero::Backup;
use lifeboat_api::velero::names::RESTORE_FINALIZER;
use lifeboat_archive::RestoreFiles;
use lifeboat_cluster::{ApiError, Attempt, objects};
use serde_json::{Value, json};

use crate::context::Context;
use crate::locations::{self, LocationError};

/// How soon a location that is out of reach is tried again.
const NEXT_TRY: Duration = Duration::from_secs(30);

pub(super) async fn delete(
    context: &Context,
    api: &Api<DynamicObject>,
    object: &DynamicObject,
) -> Result<Action, ApiError> {
    if !object.finalizers().iter().any(|name| name == RESTORE_FINALIZER) {
        return Ok(Action::await_change());
    }
    if let Err(words) = delete_files(context, object).await? {
        tracing::warn!(
            restore = object.name_any(),
            words,
            "the files of a deleted restore cannot be deleted yet"
        );
        return Ok(Action::requeue(NEXT_TRY));
    }
    let rest: Vec<&String> = object.finalizers().iter().filter(|name| *name != RESTORE_FINALIZER).collect();
    match objects::merge(api, object, json!({"metadata": {"finalizers": rest}})).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(Action::await_change()),
    }
}

/// The inner error is worth another try.
async fn delete_files(context: &Context, object: &DynamicObject) -> Result<Result<(), String>, ApiError> {
    let backup = object.data.pointer("/spec/backupName").and_then(Value::as_str).unwrap_or_default();
    let Ok(files) = RestoreFiles::new(&object.name_any()) else { return Ok(Ok(())) };
    if backup.is_empty() {
        return Ok(Ok(()));
    }
    let backups =
        objects::namespaced(&context.client, &context.settings.namespace, &objects::resource_of::<Backup>());
    let found = backups.get_opt(backup).await.attempt(format!("read Backup {backup}"))?;
    let Some(backup) = found.and_then(|backup| objects::typed::<Backup>(&backup).ok()) else {
        return Ok(Ok(()));
    };
    let location = backup.spec.storage_location.unwrap_or_default();
    let location = match locations::open(context, &location).await {
        Ok(location) => location,
        Err(LocationError::NotFound(_)) => return Ok(Ok(())),
        Err(LocationError::Api(error)) => return Err(error),
        Err(error) => return Ok(Err(error.to_string())),
    };
    let deleted = async {
        let keys = location.store.keys(&files.directory()).await?;
        location.store.delete(&keys).await
    };
    Ok(deleted.await.map_err(|error| locations::words(&error)))
}
