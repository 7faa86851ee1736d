//! Carries out what `plan::velero::backup::queue` decides: the order of the waiting backups, and which of them start.

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams};
use lifeboat_api::common::BackupUid;
use lifeboat_api::velero::BackupPhase;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::velero::backup::queue::{Change, Waiting, changes};
use serde_json::{Value, json};

use super::{State, shown_phase};
use crate::backup::locked;
use crate::context::Context;

/// Reads the whole queue and writes what changes.
pub(super) async fn advance(context: &Context, state: &State) -> Result<(), ApiError> {
    let _one = state.queue.lock().await;
    let objects = backups(context, state).await?;
    let waiting: Vec<_> = objects.iter().map(|object| facts(state, object)).collect();
    let is_new = |backup: &Waiting| matches!(backup.phase, BackupPhase::New | BackupPhase::Queued);
    if !waiting.iter().any(is_new) {
        return Ok(());
    }
    let namespaces: Api<Namespace> = Api::all(context.client.clone());
    let live = namespaces.list_metadata(&ListParams::default()).await.attempt("list namespaces")?;
    let live: Vec<_> = live.iter().map(ResourceExt::name_any).collect();
    for change in changes(&waiting, &live, context.settings.backup.concurrent) {
        let (name, phase, position) = match &change {
            Change::Queue { name, position } => (name, BackupPhase::Queued, json!(position)),
            Change::Start { name } => (name, BackupPhase::ReadyToStart, Value::Null),
        };
        let Some(object) = objects.iter().find(|object| object.name_any() == *name) else { continue };
        let patch = json!({"status": {"phase": phase.as_str(), "queuePosition": position}});
        match objects::merge(&state.api(context), object, patch).await {
            Ok(_) => remember(state, object, phase),
            // The Backup was changed or deleted in the meantime: that triggers the next reconcile.
            Err(error) if error.is_conflict() || error.is_not_found() => {}
            Err(error) if error.is_invalid() => {
                let message = "the backup cannot be started";
                context.refused.report(&context.events, object, &state.resource, message, &error).await;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub(super) fn remember(state: &State, object: &DynamicObject, phase: BackupPhase) {
    let uid = BackupUid::new(object.metadata.uid.as_deref().unwrap_or_default());
    locked(&state.written).insert(uid, phase);
}

/// All Backups from the watch's cache; listed if there is no cache.
async fn backups(context: &Context, state: &State) -> Result<Vec<DynamicObject>, ApiError> {
    let alive = |object: &DynamicObject| object.metadata.deletion_timestamp.is_none();
    let counts = |object: &DynamicObject| alive(object) && rank(&shown_phase(object)) < 4;
    let Some(store) = &state.backups else {
        let all = state.api(context).list(&ListParams::default()).await.attempt("list Backups")?.items;
        return Ok(all.into_iter().filter(counts).collect());
    };
    // Thousands have ended: only those that wait or run are copied.
    let all = store.state();
    locked(&state.written)
        .retain(|uid, _| all.iter().any(|object| object.metadata.uid.as_deref() == Some(uid.as_str())));
    Ok(all.iter().filter(|object| counts(object)).map(|object| object.as_ref().clone()).collect())
}

fn facts(state: &State, object: &DynamicObject) -> Waiting {
    let list = |field: &str| {
        let names = object.data["spec"][field].as_array().into_iter().flatten();
        names.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let shown = shown_phase(object);
    let written = locked(&state.written).get(object.metadata.uid.as_deref().unwrap_or_default()).cloned();
    // Phases only move forward: the later one is the newer one.
    let phase = written.filter(|written| rank(written) > rank(&shown)).unwrap_or(shown);
    Waiting {
        name: object.name_any(),
        phase,
        position: object.data.pointer("/status/queuePosition").and_then(Value::as_i64).unwrap_or_default(),
        created: object.creation_timestamp().map(|time| time.0),
        included_namespaces: list("includedNamespaces"),
        excluded_namespaces: list("excludedNamespaces"),
    }
}

fn rank(phase: &BackupPhase) -> u8 {
    match phase {
        BackupPhase::New => 0,
        BackupPhase::Queued => 1,
        BackupPhase::ReadyToStart => 2,
        BackupPhase::InProgress => 3,
        _ => 4,
    }
}
