//! Volumes that plugins have not finished when the call returns: polled until all have ended or their time is over.
//! They are recorded in their VolumePluginRestores, so that the next leader can continue.

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use kube::api::ListParams;
use lifeboat_api::velero::Restore;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::velero::volume_plugin::{
    PERSISTENT_VOLUME, PROVIDER_VOLUME, SNAPSHOT_LOCATION, is_over, operation_state,
};
use lifeboat_plugin::host::ServerLog;
use serde_json::Value;

use super::{FinishingRestore, RestoreError, operation_timeout};
use crate::context::Context;
use crate::restore::handler::{OpenVolume, Processes};
use crate::snapshot_locations::{self, SnapshotterError};
use crate::volume_plugin::{self, DatedClient, Kind, OperationState};

/// The first pause between polls; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// All VolumePluginRestores of a restore.
pub(in crate::restore) async fn all(context: &Context, restore: &Restore) -> Result<Vec<Value>, ApiError> {
    let api = volume_plugin::api(&context.client, Kind::Restore, &context.namespace);
    let selector = Kind::Restore.uid_selector(&restore.uid().unwrap_or_default());
    let listed = match api.list(&ListParams::default().labels(&selector)).await {
        // If the kinds are not installed, no volume was ever started.
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Vec::new()),
        listed => listed.attempt("list volumepluginrestores")?,
    };
    Ok(listed.items.iter().map(objects::to_json).collect())
}

/// The VolumePluginRestores that are not at their end.
pub(in crate::restore) fn open(objects: &[Value]) -> impl Iterator<Item = OpenVolume> {
    let open = objects.iter().filter(|object| operation_state(object) == OperationState::Open).cloned();
    open.map(|object| OpenVolume { object, snapshotter: None, processes: None })
}

/// Reports volumes that failed while no server ran.
pub(in crate::restore) fn report_failed(rest: &mut FinishingRestore<'_>, objects: &[Value]) {
    for object in objects {
        let OperationState::Failed(message) = operation_state(object) else { continue };
        let is_made = !object["metadata"]["annotations"][PROVIDER_VOLUME].is_null();
        let again = |other: &Value| {
            about(other) == about(object) && !matches!(operation_state(other), OperationState::Failed(_))
        };
        let reported = rest.results.errors.all().any(|(_, known)| known.contains(&message));
        if is_made && !reported && !objects.iter().any(again) {
            rest.error(None, not_made(object, &message));
        }
    }
}

/// The snapshot and the PersistentVolume of an object.
fn about(object: &Value) -> (&str, &str) {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let noted = object["metadata"]["annotations"][PERSISTENT_VOLUME].as_str();
    (text("/spec/snapshotID"), noted.unwrap_or_else(|| text("/status/volumeID")))
}

fn not_made(object: &Value, message: &str) -> String {
    let (snapshot, volume) = about(object);
    format!("volume {volume} was not created from snapshot '{snapshot}': {message}")
}

/// Adds volumes whose call an earlier attempt made, and which this attempt found restored.
pub(in crate::restore) async fn add_continued(rest: &mut FinishingRestore<'_>) {
    let known: Vec<Value> = rest.open.iter().map(|one| one.object["metadata"]["name"].clone()).collect();
    match all(rest.context, rest.restore).await {
        Ok(objects) => {
            rest.open.extend(open(&objects).filter(|one| {
                let metadata = &one.object["metadata"];
                !known.contains(&metadata["name"]) && !metadata["annotations"][PROVIDER_VOLUME].is_null()
            }));
            report_failed(rest, &objects);
        }
        Err(error) => {
            rest.error(
                None,
                format!("volumes that plugins have not finished are unknown: {}", error.chain()),
            );
        }
    }
}

/// Waits for all volumes. The error means that the restore was cancelled.
pub(in crate::restore) async fn follow(rest: &mut FinishingRestore<'_>) -> Result<(), RestoreError> {
    if rest.open.is_empty() {
        return Ok(());
    }
    let mut pause = FIRST_PAUSE;
    loop {
        let mut waiting = Vec::new();
        for mut one in std::mem::take(&mut rest.open) {
            match poll(rest, &mut one).await {
                OperationState::Open => waiting.push(one),
                OperationState::Completed => end(one).await,
                OperationState::Failed(message) => {
                    rest.error(None, not_made(&one.object, &message));
                    end(one).await;
                }
            }
        }
        rest.open = waiting;
        if rest.open.is_empty() {
            break;
        }
        rest.pause(pause).await?;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    rest.show().await;
    Ok(())
}

async fn end(one: OpenVolume) {
    if let Some(processes) = &one.processes {
        processes.0.close().await;
    }
}

/// Polls one volume. An operation whose time is over, or whose plugin is gone, has failed, which is written into its
/// object.
async fn poll(rest: &FinishingRestore<'_>, one: &mut OpenVolume) -> OperationState {
    let (context, limit) = (rest.context, operation_timeout(rest.context, rest.restore));
    let mut over = if one.snapshotter.is_none() { reopen(context, one).await } else { None };
    if is_over(&one.object, None, limit, context.now()) {
        over = Some("it did not end in time (spec.itemOperationTimeout)".to_owned());
    }
    let snapshotter = one.snapshotter.as_ref().map(|opened| opened.snapshotter.as_ref());
    let (client, namespace) = (DatedClient::of(context), &context.namespace);
    let looked =
        volume_plugin::follow(client, Kind::Restore, namespace, &one.object, snapshotter, over.as_deref());
    match looked.await {
        Ok((object, standing)) => {
            one.object = object;
            standing
        }
        Err(error) => {
            tracing::warn!(error = error.chain(), "cannot look at a VolumePluginRestore");
            over.map_or(OperationState::Open, OperationState::Failed)
        }
    }
}

/// Opens the snapshot location of an operation that another server started; returns the reason if that will never
/// succeed.
async fn reopen(context: &Context, one: &mut OpenVolume) -> Option<String> {
    let location = one.object["metadata"]["labels"][SNAPSHOT_LOCATION].as_str().unwrap_or_default();
    let processes = Processes(context.plugins.session(Arc::new(ServerLog)));
    match snapshot_locations::open(context, &processes.0, location).await {
        Ok(opened) => {
            one.snapshotter = Some(opened);
            one.processes = Some(processes);
            None
        }
        Err(SnapshotterError::Api(error)) => {
            tracing::warn!(error = error.chain(), "cannot read a VolumeSnapshotLocation");
            None
        }
        Err(error) => Some(error.chain()),
    }
}
