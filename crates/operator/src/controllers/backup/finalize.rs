//! The end of a Backup: `velero-backup.json`, which makes the directory a backup, is written, then the end phase. A server
//! that dies between the two does both again.

use std::time::Duration;

use jiff::Timestamp;
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use lifeboat_api::common::{GoDuration, Time};
use lifeboat_api::velero::{Backup, BackupPhase};
use lifeboat_archive::BackupFiles;
use lifeboat_archive::documents::encode_backup;
use lifeboat_cluster::ApiError;
use lifeboat_plan::backup::{ATTEMPT, attempt, phase};
use lifeboat_web::{BackupEnd, Ending};

use super::State;
use super::start::schedule;
use super::status::{Run, read, write};
use crate::backup::chain;
use crate::context::Context;
use crate::locations::{self, LocationError};

/// How long after a failure the end is tried again.
const AGAIN: Duration = Duration::from_secs(10);

/// How long storage may be out of reach at the end, where the spec says nothing.
const PATIENCE: GoDuration = GoDuration::from_secs(4 * 3600);

pub(super) async fn finalize(context: &Context, state: &State, backup: &Backup) -> Result<Action, ApiError> {
    end(context, state, backup, None).await
}

/// `archive_bytes`: for the metrics, where the pass was this server's.
pub(super) async fn end(
    context: &Context,
    state: &State,
    backup: &Backup,
    archive_bytes: Option<u64>,
) -> Result<Action, ApiError> {
    let Some(end) = phase::finalized(backup.phase()) else { return Ok(Action::await_change()) };
    let this = run_of(backup);
    let now = context.now();
    let mut ended = backup.clone();
    if let Some(status) = &mut ended.status {
        status.phase = Some(end.clone());
        status.completion_timestamp = Some(Time(seconds(now)));
    }
    ended.metadata.managed_fields = None;
    if read(context, state, &this).await?.is_none() {
        return Ok(Action::await_change());
    }
    match store(context, &ended).await {
        Ok(()) => {}
        Err(Trouble::Api(error)) => return Err(error),
        Err(Trouble::Storage(words)) => return storage_trouble(context, state, backup, &this, &words).await,
    }
    let Some(object) = write(context, state, &this, &phase::ended(&end, now)).await? else {
        return Ok(Action::await_change());
    };
    count(context, &ended, archive_bytes);
    let about = object.object_ref(&state.resource);
    if end == BackupPhase::Completed {
        context.events.normal(&about, "Completed", "the backup can be restored").await;
    } else {
        let errors = ended.status.as_ref().and_then(|status| status.errors).unwrap_or_default();
        let words = format!("{errors} errors: `lifeboat backup describe {}` names them", ended.name_any());
        context.events.warning(&about, "PartiallyFailed", &words).await;
    }
    Ok(Action::await_change())
}

pub(super) fn run_of(backup: &Backup) -> Run {
    let annotation = backup.annotations().get(ATTEMPT).map(String::as_str);
    Run { name: backup.name_any(), uid: backup.uid().unwrap_or_default(), attempt: attempt(annotation) }
}

enum Trouble {
    Api(ApiError),
    Storage(String),
}

async fn store(context: &Context, ended: &Backup) -> Result<(), Trouble> {
    let name = ended.spec.storage_location.clone().unwrap_or_default();
    let location = locations::open(context, &name).await.map_err(|error| match error {
        LocationError::Api(error) => Trouble::Api(error),
        other => Trouble::Storage(other.to_string()),
    })?;
    let files = BackupFiles::new(&ended.name_any()).map_err(|error| Trouble::Storage(error.to_string()))?;
    let json = encode_backup(ended).map_err(|error| Trouble::Storage(error.to_string()))?;
    let written = location.store.put(&files.metadata(), json).await;
    written.map_err(|error| Trouble::Storage(format!("cannot write {}: {}", files.metadata(), chain(&error))))
}

/// Storage may come back; at last the backup has failed, because nobody could restore it.
async fn storage_trouble(
    context: &Context,
    state: &State,
    backup: &Backup,
    this: &Run,
    words: &str,
) -> Result<Action, ApiError> {
    let started =
        backup.status.as_ref().and_then(|status| status.start_timestamp.as_ref()).map(|time| time.0);
    let patience = GoDuration::set(backup.spec.item_operation_timeout).unwrap_or(PATIENCE);
    let over = started.and_then(|start| start.checked_add(patience.to_signed()).ok());
    tracing::warn!(backup = this.name, error = words, "a backup cannot be finalized");
    if over.is_none_or(|over| context.now() < over) {
        return Ok(Action::requeue(AGAIN));
    }
    write(context, state, this, &phase::failed(words, context.now())).await?;
    Ok(Action::await_change())
}

/// Counts an end.
pub(super) fn count(context: &Context, ended: &Backup, archive_bytes: Option<u64>) {
    let status = ended.status.clone().unwrap_or_default();
    let ending = match status.phase {
        Some(BackupPhase::Completed) => Ending::Completed,
        Some(BackupPhase::PartiallyFailed) => Ending::PartiallyFailed,
        _ => Ending::Failed,
    };
    let number = |count: Option<i64>| count.and_then(|count| u64::try_from(count).ok()).unwrap_or_default();
    let now = context.now();
    let start = status.start_timestamp.map_or(now, |time| time.0);
    let end = BackupEnd {
        ending,
        duration: Duration::try_from(now.duration_since(start)).unwrap_or_default(),
        items: number(status.progress.and_then(|progress| progress.items_backed_up)),
        errors: number(status.errors),
        warnings: number(status.warnings),
        archive_bytes,
        ended_at: now.as_second(),
    };
    context.metrics.velero().backup_ended(schedule(ended), &end);
}

/// Whole seconds, as objects hold them.
fn seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
