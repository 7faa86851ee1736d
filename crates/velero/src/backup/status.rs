//! Writes the status of a Backup at the end of a step: retries for a minute, but only while the object is the same
//! and no other attempt has started.

use std::time::Duration;

use kube::ResourceExt;
use kube::api::DynamicObject;
use lifeboat_api::common::BackupUid;
use lifeboat_api::velero::{Backup, BackupPhase};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::velero::backup::{ATTEMPT, attempt};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::State;
use super::queue::remember;
use crate::backup::pass::{Stop, verdict};
use crate::context::Context;

/// How long a write is retried.
const PATIENCE: Duration = Duration::from_mins(1);

/// An object, and the number of its attempt.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) name: String,
    pub(super) uid: BackupUid,
    pub(super) attempt: u64,
}

impl Run {
    /// The object with its current attempt.
    pub(super) fn of(backup: &Backup) -> Self {
        let annotation = backup.annotations().get(ATTEMPT).map(String::as_str);
        Self { name: backup.name_any(), uid: backup.backup_uid(), attempt: attempt(annotation) }
    }
}

/// Merges `status`. None if the object is gone or now belongs to another attempt; a request to cancel comes too late.
pub(super) async fn write(
    context: &Context,
    state: &State,
    run: &Run,
    status: &Value,
) -> Result<Option<DynamicObject>, ApiError> {
    write_noted(context, state, run, status, &json!({})).await
}

/// Merges `status` and `annotations`; None as in [`write`].
pub(super) async fn write_noted(
    context: &Context,
    state: &State,
    run: &Run,
    status: &Value,
    annotations: &Value,
) -> Result<Option<DynamicObject>, ApiError> {
    let patch = json!({"metadata": {"annotations": annotations}, "status": status});
    let (api, start) = (state.api(context), Instant::now());
    loop {
        let written = match read(context, state, run).await {
            Ok(Some(object)) => objects::merge(&api, &object, patch.clone()).await,
            Ok(None) => return Ok(None),
            Err(error) => Err(error),
        };
        match written {
            Ok(object) => {
                if let Some(phase) = status["phase"].as_str() {
                    remember(state, &object, BackupPhase::from(phase));
                }
                return Ok(Some(object));
            }
            Err(error) if start.elapsed() < PATIENCE && (error.is_conflict() || error.is_transient()) => {
                sleep(Duration::from_millis(300)).await;
            }
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// Why this attempt has to stop, according to the object as it is now.
pub(super) async fn stop(context: &Context, state: &State, run: &Run) -> Result<Option<Stop>, ApiError> {
    let found = state.api(context).get_opt(&run.name).await.attempt(format!("read Backup {}", run.name))?;
    Ok(found.map_or(Some(Stop::Deleted), |object| verdict(&object, &run.uid, run.attempt)))
}

/// The object as it is now; None if it is gone or belongs to another attempt.
pub(super) async fn read(
    context: &Context,
    state: &State,
    run: &Run,
) -> Result<Option<DynamicObject>, ApiError> {
    let found = state.api(context).get_opt(&run.name).await.attempt(format!("read Backup {}", run.name))?;
    let ours = |object: &DynamicObject| {
        !matches!(verdict(object, &run.uid, run.attempt), Some(Stop::Deleted | Stop::Overtaken))
    };
    Ok(found.filter(ours))
}
