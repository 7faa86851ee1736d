//! DataUploads and DataDownloads as the actions use them: create once, poll, cancel.

use std::collections::BTreeSet;

use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use lifeboat_api::common::BackupUid;
use lifeboat_api::velero::names;
use lifeboat_cluster::{ApiError, Attempt, MANAGER, objects};
use lifeboat_plan::velero::data_movement;
use lifeboat_plugin::actions::{ActionError, OperationProgress};
use serde_json::{Value, json};

use super::backup::failed;
use super::objects::text;

pub(super) const UPLOAD: (&str, &str) = ("DataUpload", "datauploads");
pub(super) const DOWNLOAD: (&str, &str) = ("DataDownload", "datadownloads");

/// How many names are tried if the objects with the earlier names were cancelled or failed.
const NAMES: usize = 5;

fn api(client: &Client, namespace: &str, (kind, plural): (&str, &str)) -> Api<DynamicObject> {
    objects::namespaced(client, namespace, &objects::resource("velero.io", "v2alpha1", kind, plural))
}

/// Creates the object, or finds the one of an interrupted attempt. If that one was cancelled or failed, the next name
/// is used. Returns the name.
pub(super) async fn make(client: &Client, kind: (&str, &str), wanted: &Value) -> Result<String, ApiError> {
    let (namespace, name) = (text(wanted, "/metadata/namespace"), text(wanted, "/metadata/name"));
    let api = api(client, namespace, kind);
    for number in 1..=NAMES {
        let mut wanted = wanted.clone();
        let name = if number == 1 { name.to_owned() } else { format!("{name}-{number}") };
        wanted["metadata"]["name"] = json!(name);
        let attempt = format!("create {} {name}", kind.0);
        let object = serde_json::from_value(wanted).map_err(kube::Error::SerdeError);
        let object: DynamicObject = object.attempt(attempt.clone())?;
        match api.create(&PostParams::default(), &object).await {
            Ok(_) => return Ok(name),
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(error).attempt(attempt),
        }
        let found = api.get_opt(&name).await.attempt(format!("read {} {name}", kind.0))?;
        if found.is_some_and(|found| !is_spent(&found) || number == NAMES) {
            return Ok(name);
        }
    }
    Ok(name.to_owned())
}

/// Whether an object was cancelled or failed. A failed one with a snapshot only misses files, and its snapshot is
/// used.
fn is_spent(object: &DynamicObject) -> bool {
    let status = &object.data["status"];
    let made = status["snapshotID"].as_str().is_some_and(|id| !id.is_empty());
    object.data["spec"]["cancel"] == true
        || object.metadata.deletion_timestamp.is_some()
        || status["phase"] == "Canceled"
        || (status["phase"] == "Failed" && !made)
}

/// The DataUpload of an operation, if it is running or has a snapshot.
pub(super) async fn usable(
    client: &Client,
    namespace: &str,
    operation: &str,
) -> Result<Option<Value>, ApiError> {
    let found = find(client, namespace, UPLOAD, operation).await?;
    Ok(found.filter(|found| !is_spent(found)).as_ref().map(objects::to_json))
}

/// The object of an operation, by its label.
async fn find(
    client: &Client,
    namespace: &str,
    kind: (&str, &str),
    operation: &str,
) -> Result<Option<DynamicObject>, ApiError> {
    let selector = format!("{}={operation}", names::ASYNC_OPERATION_ID);
    let listed = api(client, namespace, kind).list(&ListParams::default().labels(&selector)).await;
    let of_operation = |object: &DynamicObject| {
        let labels = object.metadata.labels.as_ref();
        labels.and_then(|all| all.get(names::ASYNC_OPERATION_ID)).is_some_and(|id| id == operation)
    };
    let mut found: Vec<DynamicObject> =
        listed.attempt(format!("list {}", kind.1))?.items.into_iter().filter(of_operation).collect();
    // A cancelled or failed object counts only if there is no other.
    found.sort_by_key(|object| (is_spent(object), object.data["spec"]["cancel"] == true));
    Ok(found.into_iter().next())
}

pub(super) async fn progress(
    client: &Client,
    namespace: &str,
    kind: (&str, &str),
    operation: &str,
) -> Result<OperationProgress, ActionError> {
    let found = match find(client, namespace, kind, operation).await {
        Ok(found) => found,
        Err(error) if error.is_transient() => return Ok(OperationProgress::default()),
        Err(error) => return Err(failed(error)),
    };
    let Some(found) = found else {
        return Err(ActionError::Failed(format!("the {} of this operation was deleted", kind.0)));
    };
    let seen = data_movement::progress(&objects::to_json(&found));
    Ok(OperationProgress {
        completed: seen.completed,
        error: seen.error,
        done: seen.done,
        total: seen.total,
        units: "Bytes".to_owned(),
        description: seen.phase,
        started: seen.started,
        updated: seen.updated,
    })
}

pub(super) async fn cancel(
    client: &Client,
    namespace: &str,
    kind: (&str, &str),
    operation: &str,
) -> Result<(), ActionError> {
    let Some(found) = find(client, namespace, kind, operation).await.map_err(failed)? else { return Ok(()) };
    let name = found.metadata.name.unwrap_or_default();
    let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
    let patch = Patch::Merge(json!({"spec": {"cancel": true}}));
    match api(client, namespace, kind).patch(&name, &params, &patch).await.attempt(format!("cancel {name}")) {
        Err(error) if !error.is_not_found() => Err(failed(error)),
        _ => Ok(()),
    }
}

/// Cancels the DataUploads of a backup that belong to none of these operations: an interrupted attempt created them
/// for claims that are gone in the meantime.
pub(crate) async fn cancel_unused(
    client: &Client,
    namespace: &str,
    backup_uid: &BackupUid,
    used: &BTreeSet<String>,
) -> Result<(), ApiError> {
    let label = |object: &DynamicObject, key: &str| {
        object.metadata.labels.as_ref().and_then(|all| all.get(key)).cloned().unwrap_or_default()
    };
    let selector = format!("{}={backup_uid}", names::BACKUP_UID);
    let uploads = api(client, namespace, UPLOAD);
    let listed = uploads.list(&ListParams::default().labels(&selector)).await.attempt("list datauploads")?;
    for object in listed.items {
        let of_backup = *backup_uid == label(&object, names::BACKUP_UID).as_str();
        if of_backup && !used.contains(&label(&object, names::ASYNC_OPERATION_ID)) {
            let name = object.metadata.name.clone().unwrap_or_default();
            let patch = Patch::Merge(json!({"spec": {"cancel": true}}));
            uploads.patch(&name, &PatchParams::default(), &patch).await.attempt(format!("cancel {name}"))?;
        }
    }
    Ok(())
}

/// The DataUpload of an operation.
pub(crate) async fn upload_of(
    client: &Client,
    namespace: &str,
    operation: &str,
) -> Result<Option<Value>, ApiError> {
    Ok(find(client, namespace, UPLOAD, operation).await?.as_ref().map(objects::to_json))
}
