//! The end of a Backup: items that operations changed are written into the archive, then `velero-backup.json`, which
//! makes the directory a backup, then the final phase. A server that dies in between repeats all of it. Called by the
//! controller, and by an attempt whose backup has no operations to wait for.

pub(super) mod deleted;
pub(super) mod operations;
mod rewrite;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use lifeboat_api::common::Time;
use lifeboat_api::velero::{Backup, BackupPhase};
use lifeboat_archive::documents::encode_backup;
use lifeboat_archive::{BackupFiles, ObjectStore};
use lifeboat_cluster::ApiError;
use lifeboat_control::locked;
use lifeboat_plan::velero::backup::{ARCHIVE_BYTES, phase};
use serde_json::Value;

use super::State;
use super::counted::count;
use super::journal::Journal;
use super::problem::{BackupProblem, wait};
use super::status::{Run, read, write};
use super::storage::{Storage, has_archive, open};
use crate::context::Context;
use crate::ownership;
use crate::{csi, locations};
use lifeboat_plan::velero::ownership::{EXPIRATION_PROOF, Owned, OwnerId, OwnershipKeys};

pub(super) async fn finalize(context: &Context, state: &State, backup: &Backup) -> Result<Action, ApiError> {
    end(context, state, backup, None).await
}

/// Writes the files and the final phase. `archive_bytes`: the archive's size for the metrics, if this server ran the
/// pass.
pub(super) async fn end(
    context: &Context,
    state: &State,
    backup: &Backup,
    archive_bytes: Option<u64>,
) -> Result<Action, ApiError> {
    let Some(phase) = phase::finalized(backup.phase()) else { return Ok(Action::await_change()) };
    let this = Run::of(backup);
    let complete = async {
        if read(context, state, &this).await.map_err(BackupProblem::Api)?.is_none() {
            return Ok(None);
        }
        let storage = open(context, backup).await?;
        let ended = ended(context, backup, &storage, phase).await?;
        // The fence: the file of another attempt must not be replaced.
        if read(context, state, &this).await.map_err(BackupProblem::Api)?.is_none() {
            return Ok(None);
        }
        let keys = ownership::keys(context).await.map_err(BackupProblem::Api)?;
        put(storage.store(), &storage.files, &proven(&keys, &ended.backup)).await?;
        Ok(Some(ended))
    };
    let ended = match complete.await {
        Ok(Some(ended)) => ended,
        Ok(None) => return Ok(Action::await_change()),
        Err(problem) => return wait(context, state, backup, problem).await,
    };
    locked(&state.problem).remove(&this.uid);
    release_snapshots(context, backup).await;
    let Some(object) = write(context, state, &this, &ended.patch).await? else {
        return Ok(Action::await_change());
    };
    Journal::new(context.client.clone(), &context.namespace, backup).remove().await;
    count(context, &ended.backup, ended.bytes.or(archive_bytes));
    report_end(context, &object.object_ref(&state.resource), &ended.backup).await;
    Ok(Action::await_change())
}

/// A Backup with its final status.
struct FinishedBackup {
    backup: Backup,
    /// The patch of the Backup's status.
    patch: Value,
    /// The size of the archive, if it was rewritten.
    bytes: Option<u64>,
}

/// Writes what operations changed into the archive, checks that the archive exists, and returns the Backup with its
/// final status.
async fn ended(
    context: &Context,
    backup: &Backup,
    storage: &Storage,
    mut phase: BackupPhase,
) -> Result<FinishedBackup, BackupProblem> {
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
    Ok(FinishedBackup { backup: ended, patch, bytes: rewritten.bytes })
}

/// Checks that the archive is in storage with the expected size. `rewritten`: its size, if it was written again.
async fn check_archive(
    backup: &Backup,
    storage: &Storage,
    rewritten: Option<u64>,
) -> Result<(), BackupProblem> {
    let operated = backup.status.as_ref().and_then(|status| status.backup_item_operations_attempted);
    let noted = backup.annotations().get(ARCHIVE_BYTES).and_then(|text| text.parse().ok());
    // Operations change the archive after the pass recorded its size.
    let size = rewritten.or(noted.filter(|_| operated.unwrap_or_default() == 0));
    let key = storage.files.contents();
    match has_archive(storage.store(), &storage.files, size).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(BackupProblem::Gone(format!(
            "the archive {key} is gone from storage, or another backup wrote it: back up again"
        ))),
        Err(error) => {
            Err(BackupProblem::Storage(format!("cannot read {key}: {}", locations::message(&error))))
        }
    }
}

/// Deletes the objects of CSI snapshots, which are in the archive now; those that cannot be deleted now are deleted
/// at the start of the next term.
async fn release_snapshots(context: &Context, backup: &Backup) {
    let Run { name, uid, .. } = Run::of(backup);
    if backup.spec.snapshot_move_data == Some(true) {
        // Data movement has put their data into a repository: the drivers' snapshots are not needed any more.
        for message in csi::discard(context, &uid).await {
            tracing::warn!(
                backup = name,
                problem = message,
                "cannot delete a CSI snapshot whose data was moved"
            );
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
    let message = format!("{errors} errors: see `lifeboat backup describe {}`", ended.name_any());
    context.events.warning(about, "PartiallyFailed", &message).await;
}

/// The Backup with the proof of its expiration, for other clusters and for this one when it is set up again.
fn proven(keys: &OwnershipKeys, ended: &Backup) -> Backup {
    let mut stored = ended.clone();
    let (name, uid) = (ended.name_any(), ended.uid().unwrap_or_default());
    let owner = OwnerId { backup: &name, uid: &uid };
    let date = ended.status.as_ref().and_then(|status| serde_json::to_value(&status.expiration).ok());
    if let Some(date) = date.as_ref().and_then(serde_json::Value::as_str)
        && let Some(proof) = keys.proof(owner, Owned::Expiration(date))
    {
        stored.annotations_mut().insert(EXPIRATION_PROOF.to_owned(), proof);
    }
    stored
}

async fn put(store: &dyn ObjectStore, files: &BackupFiles, ended: &Backup) -> Result<(), BackupProblem> {
    let json = encode_backup(ended).map_err(|error| BackupProblem::Gone(error.to_string()))?;
    let written = store.put(&files.metadata(), json).await;
    written.map_err(|error| {
        BackupProblem::Storage(format!("cannot write {}: {}", files.metadata(), locations::message(&error)))
    })
}

/// The time in whole seconds, as Kubernetes objects store it.
fn seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
