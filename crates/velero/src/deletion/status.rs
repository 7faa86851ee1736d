//! The status of the request and of the Backup before, during and after a deletion.

use kube::api::{DynamicObject, ListParams};
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use lifeboat_api::velero::{Backup, BackupPhase, names};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::label;
use lifeboat_plan::velero::deletion::{self, Extent};
use serde_json::{Value, json};

use super::gather::Gathered;
use super::{Deleted, State};
use crate::context::Context;
use crate::locations::stored_phase;

/// Claims the request and marks the Backup as Deleting, before anything is deleted.
pub(super) async fn begin(
    context: &Context,
    state: &State,
    object: &DynamicObject,
    gathered: &Gathered,
    extent: Extent,
) -> Result<DynamicObject, ApiError> {
    let requests = objects::namespaced(&context.client, &context.namespace, &state.resource);
    let uid = gathered.backup.as_ref().and_then(ResourceExt::uid).unwrap_or_default();
    let labels = json!({names::BACKUP_NAME: label::value(&gathered.name), names::BACKUP_UID: uid});
    let patch = json!({"metadata": {"labels": labels}, "status": {"phase": "InProgress"}});
    let begun = objects::merge(&requests, object, patch).await?;
    // Only if the Backup did not change since it was gathered: if it started in the meantime, the request is decided
    // again. If only the object is deleted, the Backup keeps its phase, from which the next try knows that.
    if extent == Extent::Everything {
        let deleting = json!({"phase": BackupPhase::Deleting.as_str()});
        set_status(context, gathered.backup.as_ref(), &deleting).await?;
    }
    context.metrics.deletion_started(&gathered.schedule());
    Ok(begun)
}

/// Ends the request: if the Backup is gone, it is deleted with all other requests for the same backup; otherwise it
/// lists what remains.
pub(super) async fn end(
    context: &Context,
    state: &State,
    object: &DynamicObject,
    gathered: &Gathered,
    deleted: Deleted,
) -> Result<Action, ApiError> {
    let Deleted { problems, left, begun, snapshots } = deleted;
    context.metrics.deletion_ended(&gathered.schedule(), problems.is_empty());
    if problems.is_empty() {
        context.metrics.forget_backup(&gathered.schedule(), &gathered.name);
        if !left.is_empty() {
            return report_left(context, state, object, gathered, left).await;
        }
        return remove_all(context, state, object, &gathered.name).await;
    }
    let stored = match &gathered.location {
        Some(location) => stored_phase(location, &gathered.name).await,
        None => None,
    };
    if let Some(before) = gathered.phase() {
        let mut status = deletion::status_after_failure(&before, stored.as_deref(), begun);
        if snapshots {
            status = deletion::without_snapshots(status);
        }
        let mut backup = gathered.backup.clone();
        if let Some(backup) = &mut backup {
            // Our own first write changed the resource version; the request that deletes a backup owns its phase.
            backup.metadata.resource_version = None;
        }
        set_status(context, backup.as_ref(), &status).await?;
    }
    answer(context, state, object, problems).await
}

/// The most messages about what is left in a request, whose object must stay small.
const MOST_LEFT: usize = 50;

/// The backup is gone; the request stays and names what was left.
async fn report_left(
    context: &Context,
    state: &State,
    object: &DynamicObject,
    gathered: &Gathered,
    mut left: Vec<String>,
) -> Result<Action, ApiError> {
    tracing::warn!(
        backup = gathered.name,
        ?left,
        "the backup was deleted, and some of what it lists is left"
    );
    if let Some(more @ 1..) = left.len().checked_sub(MOST_LEFT) {
        left.truncate(MOST_LEFT);
        left.push(format!("and {more} more"));
    }
    let note = format!(
        "backup '{}' was deleted; {} of what it lists are left: {}",
        gathered.name,
        left.len(),
        left[0]
    );
    context.events.warning(&object.object_ref(&state.resource), "SnapshotsLeft", &note).await;
    answer(context, state, object, left).await
}

/// Ends the request with these errors.
pub(super) async fn answer(
    context: &Context,
    state: &State,
    object: &DynamicObject,
    errors: Vec<String>,
) -> Result<Action, ApiError> {
    let requests = objects::namespaced(&context.client, &context.namespace, &state.resource);
    let patch = json!({"status": {"phase": "Processed", "errors": errors}});
    match objects::merge(&requests, object, patch).await {
        Ok(_) => Ok(Action::requeue(deletion::KEEP)),
        Err(error) if error.is_not_found() => Ok(Action::await_change()),
        Err(error) if error.is_invalid() => {
            let message = errors.join("; ");
            Ok(context.refused.report(&context.events, object, &state.resource, &message, &error).await)
        }
        Err(error) => Err(error),
    }
}

/// The Backup may be gone, or may not match its schema: neither prevents the deletion of its data.
async fn set_status(
    context: &Context,
    backup: Option<&DynamicObject>,
    status: &Value,
) -> Result<(), ApiError> {
    let Some(backup) = backup else { return Ok(()) };
    let patch = json!({"status": status});
    match objects::merge(&context.objects::<Backup>(), backup, patch).await {
        Err(error) if !error.is_not_found() && !error.is_invalid() => Err(error),
        _ => Ok(()),
    }
}

async fn remove_all(
    context: &Context,
    state: &State,
    object: &DynamicObject,
    backup: &str,
) -> Result<Action, ApiError> {
    let requests = objects::namespaced(&context.client, &context.namespace, &state.resource);
    let listed = requests.list(&ListParams::default()).await.attempt("list DeleteBackupRequests")?;
    let same = |other: &&DynamicObject| {
        other.data.pointer("/spec/backupName").and_then(Value::as_str) == Some(backup)
    };
    for other in listed.items.iter().filter(same) {
        objects::delete(&requests, other).await?;
    }
    objects::delete(&requests, object).await?;
    Ok(Action::await_change())
}
