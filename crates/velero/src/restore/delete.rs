//! A Restore that is being deleted: its files in storage are deleted first, then its finalizer is removed. If the
//! backup or its location is gone, there are no files to delete; a read-only location keeps them; a location that
//! stays out of reach does not hold the object for ever. Files that are kept are reported in an event.

use std::time::Duration;

use kube::api::DynamicObject;
use kube::runtime::controller::Action;
use kube::{Api, Resource, ResourceExt};
use lifeboat_api::velero::names::RESTORE_FINALIZER;
use lifeboat_api::velero::{Backup, Restore};
use lifeboat_archive::RestoreFiles;
use lifeboat_cluster::{ApiError, Attempt, objects};
use serde_json::{Value, json};

use crate::context::Context;
use crate::locations::{self, LocationError};

/// When a location that cannot be reached is tried again.
const NEXT_TRY: Duration = Duration::from_secs(30);
/// How long the deletion of the files is tried.
const LONGEST: Duration = Duration::from_hours(1);

pub(super) async fn delete(
    context: &Context,
    api: &Api<DynamicObject>,
    object: &DynamicObject,
) -> Result<Action, ApiError> {
    if !object.finalizers().iter().any(|name| name == RESTORE_FINALIZER) {
        return Ok(Action::await_change());
    }
    let stays = match delete_files(context, object).await? {
        Files::Gone => None,
        Files::Stay(message) => Some(message),
        Files::NotYet(message) if is_over(context, object) => Some(message),
        Files::NotYet(message) => {
            tracing::warn!(
                restore = object.name_any(),
                error = message,
                "the files of a deleted restore cannot be deleted yet"
            );
            return Ok(Action::requeue(NEXT_TRY));
        }
    };
    if let Some(message) = stays {
        let note = format!("the files below restores/{} are kept in storage: {message}", object.name_any());
        let about = object.object_ref(&objects::resource_of::<Restore>());
        context.events.warning(&about, "FilesStay", &note).await;
    }
    let rest: Vec<&String> = object.finalizers().iter().filter(|name| *name != RESTORE_FINALIZER).collect();
    match objects::merge(api, object, json!({"metadata": {"finalizers": rest}})).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(Action::await_change()),
    }
}

/// The result of deleting the files.
enum Files {
    Gone,
    /// The files are kept, for this reason.
    Stay(String),
    /// The deletion is worth another try.
    NotYet(String),
}

/// Whether deleting the files was tried long enough.
fn is_over(context: &Context, object: &DynamicObject) -> bool {
    let begun = object.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    let end = begun.and_then(|begun| begun.checked_add(LONGEST).ok());
    end.is_some_and(|end| context.now() >= end)
}

async fn delete_files(context: &Context, object: &DynamicObject) -> Result<Files, ApiError> {
    let backup = object.data.pointer("/spec/backupName").and_then(Value::as_str).unwrap_or_default();
    let Ok(files) = RestoreFiles::new(&object.name_any()) else { return Ok(Files::Gone) };
    if backup.is_empty() {
        return Ok(Files::Gone);
    }
    let backups = objects::namespaced(&context.client, &context.namespace, &objects::resource_of::<Backup>());
    let found = backups.get_opt(backup).await.attempt(format!("read Backup {backup}"))?;
    let Some(backup) = found.and_then(|backup| objects::typed::<Backup>(&backup).ok()) else {
        return Ok(Files::Gone);
    };
    let location = backup.spec.storage_location.unwrap_or_default();
    let location = match locations::open(context, &location).await {
        Ok(location) => location,
        Err(LocationError::NotFound(_)) => return Ok(Files::Gone),
        Err(LocationError::Api(error)) => return Err(error),
        Err(error) => return Ok(Files::NotYet(error.to_string())),
    };
    if location.object.is_read_only() {
        return Ok(Files::Stay(format!("location {} is read-only", location.name)));
    }
    let deleted = async {
        let keys = location.store.keys(&files.directory()).await?;
        location.store.delete(&keys).await
    };
    Ok(match deleted.await {
        Ok(()) => Files::Gone,
        Err(error) => Files::NotYet(locations::message(&error)),
    })
}
