//! DataUploads and DataDownloads as the actions use them: create once, poll, cancel.

use std::collections::BTreeSet;

use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use lifeboat_api::velero::{DataDownload, DataMovePhase, DataUpload, names};
use lifeboat_cluster::{ApiError, Attempt, MANAGER, objects};
use lifeboat_plan::velero::data_movement::Progress;
use lifeboat_plan::velero::typed::read;
use lifeboat_plugin::actions::{ActionError, OperationProgress};
use serde_json::{Value, json};

use super::backup::failed;
use super::objects::text;

/// The two kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Movement {
    Upload,
    Download,
}

/// How many names are tried if the objects with the earlier names were cancelled or failed.
const NAMES: usize = 5;

impl Movement {
    fn kind(self) -> &'static str {
        match self {
            Self::Upload => "DataUpload",
            Self::Download => "DataDownload",
        }
    }

    fn plural(self) -> &'static str {
        match self {
            Self::Upload => "datauploads",
            Self::Download => "datadownloads",
        }
    }

    fn api(self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        let resource = match self {
            Self::Upload => objects::resource_of::<DataUpload>(),
            Self::Download => objects::resource_of::<DataDownload>(),
        };
        objects::namespaced(client, namespace, &resource)
    }

    fn state(self, object: &DynamicObject) -> Result<State, serde_json::Error> {
        let object = objects::to_json(object);
        match self {
            Self::Upload => read(&object).map(|upload| State::of_upload(&upload)),
            Self::Download => read(&object).map(|download| State::of_download(&download)),
        }
    }

    /// Whether an object was cancelled or failed. A failed one with a snapshot only misses files, and its snapshot is
    /// used. One that cannot be read may still be at work.
    fn is_spent(self, object: &DynamicObject) -> bool {
        let Ok(state) = self.state(object) else { return false };
        state.is_cancelled
            || object.metadata.deletion_timestamp.is_some()
            || state.phase == DataMovePhase::Canceled
            || (state.phase == DataMovePhase::Failed && !state.has_snapshot)
    }

    fn is_cancelled(self, object: &DynamicObject) -> bool {
        self.state(object).is_ok_and(|state| state.is_cancelled)
    }
}

/// What an object says about its movement.
struct State {
    phase: DataMovePhase,
    has_snapshot: bool,
    is_cancelled: bool,
    progress: Progress,
}

impl State {
    fn of_upload(upload: &DataUpload) -> Self {
        let snapshot = upload.status.as_ref().and_then(|status| status.snapshot_id.as_deref());
        Self {
            phase: upload.phase().clone(),
            has_snapshot: snapshot.is_some_and(|snapshot| !snapshot.is_empty()),
            is_cancelled: upload.spec.cancel == Some(true),
            progress: Progress::from(upload),
        }
    }

    /// A download stores nothing.
    fn of_download(download: &DataDownload) -> Self {
        Self {
            phase: download.phase().clone(),
            has_snapshot: false,
            is_cancelled: download.spec.cancel == Some(true),
            progress: Progress::from(download),
        }
    }
}

/// Creates the object, or finds the one of an interrupted attempt. If that one was cancelled or failed, the next name
/// is used. Returns the name.
pub(super) async fn make(client: &Client, movement: Movement, wanted: &Value) -> Result<String, ApiError> {
    let (namespace, name) = (text(wanted, "/metadata/namespace"), text(wanted, "/metadata/name"));
    let (api, kind) = (movement.api(client, namespace), movement.kind());
    for number in 1..=NAMES {
        let mut wanted = wanted.clone();
        let name = if number == 1 { name.to_owned() } else { format!("{name}-{number}") };
        wanted["metadata"]["name"] = json!(name);
        let attempt = format!("create {kind} {name}");
        let object = serde_json::from_value(wanted).map_err(kube::Error::SerdeError);
        let object: DynamicObject = object.attempt(attempt.clone())?;
        match api.create(&PostParams::default(), &object).await {
            Ok(_) => return Ok(name),
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(error).attempt(attempt),
        }
        let found = api.get_opt(&name).await.attempt(format!("read {kind} {name}"))?;
        if found.is_some_and(|found| !movement.is_spent(&found) || number == NAMES) {
            return Ok(name);
        }
    }
    Ok(name.to_owned())
}

/// The DataUpload of an operation, if it is running or has a snapshot.
pub(super) async fn usable(
    client: &Client,
    namespace: &str,
    operation: &str,
) -> Result<Option<Value>, ApiError> {
    let found = find(client, namespace, Movement::Upload, operation).await?;
    Ok(found.filter(|found| !Movement::Upload.is_spent(found)).as_ref().map(objects::to_json))
}

/// The object of an operation, by its label.
async fn find(
    client: &Client,
    namespace: &str,
    movement: Movement,
    operation: &str,
) -> Result<Option<DynamicObject>, ApiError> {
    let selector = format!("{}={operation}", names::ASYNC_OPERATION_ID);
    let listed = movement.api(client, namespace).list(&ListParams::default().labels(&selector)).await;
    let of_operation = |object: &DynamicObject| {
        let labels = object.metadata.labels.as_ref();
        labels.and_then(|all| all.get(names::ASYNC_OPERATION_ID)).is_some_and(|id| id == operation)
    };
    let mut found: Vec<DynamicObject> = listed
        .attempt(format!("list {}", movement.plural()))?
        .items
        .into_iter()
        .filter(of_operation)
        .collect();
    // A cancelled or failed object counts only if there is no other.
    found.sort_by_key(|object| (movement.is_spent(object), movement.is_cancelled(object)));
    Ok(found.into_iter().next())
}

pub(super) async fn progress(
    client: &Client,
    namespace: &str,
    movement: Movement,
    operation: &str,
) -> Result<OperationProgress, ActionError> {
    let found = match find(client, namespace, movement, operation).await {
        Ok(found) => found,
        Err(error) if error.is_transient() => return Ok(OperationProgress::default()),
        Err(error) => return Err(failed(error)),
    };
    let Some(found) = found else {
        return Err(ActionError::Failed(format!("the {} of this operation was deleted", movement.kind())));
    };
    let unreadable = |error| {
        ActionError::Failed(format!("the {} of this operation cannot be read: {error}", movement.kind()))
    };
    let seen = movement.state(&found).map_err(unreadable)?.progress;
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
    movement: Movement,
    operation: &str,
) -> Result<(), ActionError> {
    let Some(found) = find(client, namespace, movement, operation).await.map_err(failed)? else {
        return Ok(());
    };
    let name = found.metadata.name.unwrap_or_default();
    let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
    let patch = Patch::Merge(json!({"spec": {"cancel": true}}));
    match movement
        .api(client, namespace)
        .patch(&name, &params, &patch)
        .await
        .attempt(format!("cancel {name}"))
    {
        Err(error) if !error.is_not_found() => Err(failed(error)),
        _ => Ok(()),
    }
}

/// Cancels the DataUploads of a backup that belong to none of these operations: an interrupted attempt created them
/// for claims that are gone in the meantime.
pub(crate) async fn cancel_unused(
    client: &Client,
    namespace: &str,
    backup_uid: &str,
    used: &BTreeSet<String>,
) -> Result<(), ApiError> {
    let label = |object: &DynamicObject, key: &str| {
        object.metadata.labels.as_ref().and_then(|all| all.get(key)).cloned().unwrap_or_default()
    };
    let selector = format!("{}={backup_uid}", names::BACKUP_UID);
    let uploads = Movement::Upload.api(client, namespace);
    let listed = uploads.list(&ListParams::default().labels(&selector)).await.attempt("list datauploads")?;
    for object in listed.items {
        let of_backup = label(&object, names::BACKUP_UID) == backup_uid;
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
    Ok(find(client, namespace, Movement::Upload, operation).await?.as_ref().map(objects::to_json))
}
