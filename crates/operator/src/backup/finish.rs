//! The end of a Backup: what operations changed goes into the archive, `velero-backup.json`, which makes the directory a
//! backup, is written, then the end phase. A server that dies between them does all of it again.

pub(super) mod deleted;
pub(super) mod operations;
mod rewrite;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use lifeboat_api::common::{GoDuration, Time};
use lifeboat_api::velero::{Backup, BackupPhase};
use lifeboat_archive::documents::encode_backup;
use lifeboat_archive::{BackupFiles, ObjectStore};
use lifeboat_cluster::ApiError;
use lifeboat_plan::backup::undo::{Ending, Files, Stage};
use lifeboat_plan::backup::{ARCHIVE_BYTES, ATTEMPT, attempt, phase};
use lifeboat_web::{BackupEnd, Ending as CountedEnding};

use serde_json::Value;

use super::State;
use super::start::schedule;
use super::status::{Run, read, write};
use super::storage::{Storage, has_archive, open};
use super::undo::Undoing;
use crate::backup::journal::Journal;
use crate::backup::locked;
use crate::backup::pass::chain;
use crate::context::Context;
use crate::csi;

/// How long after a failure the end is tried again.
const AGAIN: Duration = Duration::from_secs(10);

/// How long the server's own disk may be full: others wait behind.
const DISK_PATIENCE: GoDuration = GoDuration::from_secs(600);

/// How long storage may be out of reach, where the spec says nothing.
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
    let Some(phase) = phase::finalized(backup.phase()) else { return Ok(Action::await_change()) };
    let this = run_of(backup);
    let complete = async {
        if read(context, state, &this).await.map_err(Trouble::Api)?.is_none() {
            return Ok(None);
        }
        let storage = open(context, backup).await?;
        let ended = ended(context, backup, &storage, phase).await?;
        // The fence: another attempt's file must not be replaced.
        if read(context, state, &this).await.map_err(Trouble::Api)?.is_none() {
            return Ok(None);
        }
        put(storage.store(), &storage.files, &ended.backup).await?;
        Ok(Some(ended))
    };
    let ended = match complete.await {
        Ok(Some(ended)) => ended,
        Ok(None) => return Ok(Action::await_change()),
        Err(trouble) => return wait(context, state, backup, trouble).await,
    };
    locked(&state.trouble).remove(&this.uid);
    release_snapshots(context, backup).await;
    let Some(object) = write(context, state, &this, &ended.patch).await? else {
        return Ok(Action::await_change());
    };
    Journal::new(context.client.clone(), &context.settings.namespace, backup).remove().await;
    count(context, &ended.backup, ended.bytes.or(archive_bytes));
    report_end(context, &object.object_ref(&state.resource), &ended.backup).await;
    Ok(Action::await_change())
}

/// A backup as it is at its end.
struct Ended {
    backup: Backup,
    /// Of its status.
    patch: Value,
    /// Of an archive that was written anew.
    bytes: Option<u64>,
}

/// Writes what operations changed into the archive, looks whether that is there, and gives the Backup at its end.
async fn ended(
    context: &Context,
    backup: &Backup,
    storage: &Storage,
    mut phase: BackupPhase,
) -> Result<Ended, Trouble> {
    let rewritten = rewrite::write_again(context, backup, &storage.location.store, &storage.files).await?;
    check_archive(backup, storage, rewritten.bytes).await?;
    let (now, mut ended) = (context.now(), backup.clone());
    let mut patch = phase::ended(&phase, now);
    if let Some(status) = &mut ended.status {
        if rewritten.errors > 0 {
            phase = BackupPhase::PartiallyFailed;
            let errors = status.errors.unwrap_or_default() + rewritten.errors;
            status.errors = Some(errors);
            patch = phase::ended(&phase, now);
            patch["errors"] = errors.into();
        }
        status.phase = Some(phase);
        status.completion_timestamp = Some(Time(seconds(now)));
    }
    ended.metadata.managed_fields = None;
    Ok(Ended { backup: ended, patch, bytes: rewritten.bytes })
}

/// `rewritten`: the size of the archive, where it was written anew.
async fn check_archive(backup: &Backup, storage: &Storage, rewritten: Option<u64>) -> Result<(), Trouble> {
    let operated = backup.status.as_ref().and_then(|status| status.backup_item_operations_attempted);
    let noted = backup.annotations().get(ARCHIVE_BYTES).and_then(|text| text.parse().ok());
    // Operations change the archive after the pass noted its size.
    let size = rewritten.or(noted.filter(|_| operated.unwrap_or_default() == 0));
    let key = storage.files.contents();
    match has_archive(storage.store(), &storage.files, size).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(Trouble::Gone(format!(
            "the archive {key} is gone from storage, or another backup wrote it: back up again"
        ))),
        Err(error) => Err(Trouble::Storage(format!("cannot look at {key}: {}", chain(&error)))),
    }
}

/// The archive has the CSI snapshots; objects that cannot be removed now are removed at the start of the next term.
async fn release_snapshots(context: &Context, backup: &Backup) {
    let Run { name, uid, .. } = run_of(backup);
    if backup.spec.snapshot_move_data == Some(true) {
        // Their data is in a repository: the drivers need not keep it as well.
        for message in csi::discard(context, &uid).await {
            tracing::warn!(backup = name, message, "a backup whose data was moved");
        }
    } else if let Err(error) = csi::release(context, &uid).await {
        tracing::warn!(backup = name, error = error.chain(), "objects of CSI snapshots are left behind");
    }
}

async fn report_end(context: &Context, about: &ObjectReference, ended: &Backup) {
    if *ended.phase() == BackupPhase::Completed {
        return context.events.normal(about, "Completed", "the backup can be restored").await;
    }
    let errors = ended.status.as_ref().and_then(|status| status.errors).unwrap_or_default();
    let message = format!("{errors} errors: `lifeboat backup describe {}` names them", ended.name_any());
    context.events.warning(about, "PartiallyFailed", &message).await;
}

pub(super) fn run_of(backup: &Backup) -> Run {
    let annotation = backup.annotations().get(ATTEMPT).map(String::as_str);
    Run { name: backup.name_any(), uid: backup.uid().unwrap_or_default(), attempt: attempt(annotation) }
}

/// What keeps a Backup from going on.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error("{}", .0.chain())]
    Api(ApiError),
    /// Storage is out of reach or does not take something: that may pass.
    #[error("{0}")]
    Storage(String),
    /// The server's own disk is full: that may pass.
    #[error("{0}")]
    Disk(String),
    /// Will not pass.
    #[error("{0}")]
    Gone(String),
}

async fn put(store: &dyn ObjectStore, files: &BackupFiles, ended: &Backup) -> Result<(), Trouble> {
    let json = encode_backup(ended).map_err(|error| Trouble::Gone(error.to_string()))?;
    let written = store.put(&files.metadata(), json).await;
    written.map_err(|error| Trouble::Storage(format!("cannot write {}: {}", files.metadata(), chain(&error))))
}

/// Storage may come back; at last the backup has failed, because nobody could restore it.
pub(super) async fn wait(
    context: &Context,
    state: &State,
    backup: &Backup,
    trouble: Trouble,
) -> Result<Action, ApiError> {
    let this = run_of(backup);
    let now = context.now();
    let patience = match &trouble {
        Trouble::Disk(_) => DISK_PATIENCE,
        _ => GoDuration::set(backup.spec.item_operation_timeout).unwrap_or(PATIENCE),
    };
    let (words, over) = match trouble {
        Trouble::Api(error) => return Err(error),
        Trouble::Gone(words) => (words, true),
        Trouble::Storage(words) | Trouble::Disk(words) => {
            let since = *locked(&state.trouble).entry(this.uid.clone()).or_insert(now);
            (words, since.checked_add(patience.to_signed()).is_ok_and(|end| now >= end))
        }
    };
    tracing::warn!(backup = this.name, error = words, "storage keeps a backup from its end");
    if !over {
        return Ok(Action::requeue(AGAIN));
    }
    locked(&state.trouble).remove(&this.uid);
    fail(context, state, backup, &words).await
}

/// The backup has failed.
async fn fail(context: &Context, state: &State, backup: &Backup, reason: &str) -> Result<Action, ApiError> {
    let journal = Journal::new(context.client.clone(), &context.settings.namespace, backup);
    let storage = open(context, backup).await.ok();
    let (stage, files) = match (backup.phase(), &storage) {
        // An interrupted attempt, which is waited with: the journal has what it began.
        (BackupPhase::ReadyToStart | BackupPhase::InProgress, _) => (Stage::Pass, Files::Unknown),
        (_, Some(storage)) => (Stage::AfterPass, storage.whose(backup).await.unwrap_or(Files::Unknown)),
        (_, None) => (Stage::AfterPass, Files::Unknown),
    };
    let undoing = Undoing {
        context,
        ending: Ending::Failed,
        stage,
        files,
        journal: &journal,
        backup: Some(backup),
        storage: storage.as_ref(),
        size: None,
        copies: BTreeMap::new(),
    };
    undoing.fail(state, &run_of(backup), reason).await?;
    Ok(Action::await_change())
}

/// Counts an end.
pub(super) fn count(context: &Context, ended: &Backup, archive_bytes: Option<u64>) {
    let status = ended.status.clone().unwrap_or_default();
    let ending = match status.phase {
        Some(BackupPhase::Completed) => CountedEnding::Completed,
        Some(BackupPhase::PartiallyFailed) => CountedEnding::PartiallyFailed,
        _ => CountedEnding::Failed,
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
