//! Runs the pass of a claimed Backup and writes how it ended. The archive goes up while it runs, the files beside it after
//! it; before the archive becomes visible, before those files and before the status the object is asked whether it still
//! carries this attempt's number.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use lifeboat_api::velero::{Backup, names};
use lifeboat_archive::{BackupFiles, ObjectStore, StoreError};
use lifeboat_cluster::{ApiError, objects};
use lifeboat_plan::backup::validate::ValidBackup;
use lifeboat_plan::backup::{ARCHIVE_BYTES, phase};
use lifeboat_plan::catalogue::Catalogue;
use lifeboat_plan::deletion::NAME_TAKEN;
use serde_json::json;

use super::snapshots::Discarded;
use super::status::{Run, read, stop, write, write_noted};
use super::{State, begun, copies, finalize, movements, snapshots};
use crate::backup::copies::Copying;
use crate::backup::journal::Journal;
use crate::backup::{
    About, Counters, Fence, Outcome, PassError, PassInput, Report, SnapshotEntry, Stop, Watch, chain,
    longest, run as run_pass, upload_failure, upload_outcome,
};
use crate::context::Context;
use crate::locations::{self, LocationError};
use crate::plugins::CountedLines;

/// How long storage may take for what is done after a backup failed: people wait for its end, and it may be out of reach.
pub(super) const TIDYING: Duration = Duration::from_mins(1);

/// A Backup that was claimed.
pub(super) struct Ready {
    pub(super) run: Run,
    pub(super) backup: Backup,
    pub(super) valid: ValidBackup,
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) report: Report,
    pub(super) journal: Journal,
    /// Whether an earlier attempt was interrupted.
    pub(super) again: bool,
    /// The snapshots that it began.
    pub(super) earlier: Vec<SnapshotEntry>,
}

pub(super) async fn run(context: &Context, state: &State, ready: Ready) -> Result<Action, ApiError> {
    let (this, report, journal) = (ready.run.clone(), ready.report.clone(), ready.journal.clone());
    let location = ready.backup.spec.storage_location.clone().unwrap_or_default();
    let store = match locations::open(context, &location).await {
        Ok(location) => location.store,
        Err(LocationError::Api(error)) => return Err(error),
        Err(error) => return fail(context, state, &this, &journal, None, &error.to_string()).await,
    };
    let files = match BackupFiles::new(&this.name) {
        Ok(files) => files,
        Err(error) => return fail(context, state, &this, &journal, None, &error.to_string()).await,
    };
    if let Err(words) = prepare(store.as_ref(), &files, ready.again).await {
        return fail(context, state, &this, &journal, None, &words).await;
    }
    let timeout = ready.backup.annotations().get(names::POD_VOLUME_TIMEOUT).map(String::as_str);
    let copying = Copying::new(&context.client, &context.settings.namespace, &context.settings.movers);
    let copying = Arc::new(copying.within(timeout));
    let watch = Watch::new(state.api(context), &this.name, &this.uid, this.attempt, state.resting.clone());
    let outcome = Box::pin(watched(context, ready, store.clone(), &watch, copying.clone())).await;
    match outcome {
        Ok(outcome) if !matches!(watch.reason(), Some(Stop::Cancelled | Stop::Deleted | Stop::Overtaken)) => {
            let size = outcome.size.compressed;
            // The fence: whoever lost the lead without noticing finds a higher attempt here.
            match stop(context, state, &this).await? {
                Some(Stop::Deleted) => {
                    return deleted(context, store.as_ref(), &files, &journal, Some(size), &copying).await;
                }
                Some(Stop::Overtaken) => return Ok(Action::await_change()),
                _ => {}
            }
            copies::discard_others(context, &this.uid, &copying.objects()).await;
            if let Err(words) = upload_outcome(store.as_ref(), &files, &outcome, &report).await {
                report.error(&About::Server, &words, None);
                return failed(context, state, &this, &journal, store.as_ref(), &files, &report, &words)
                    .await;
            }
            if !outcome.snapshots.is_empty() {
                journal.note_passed().await;
            }
            match passed(context, state, &this, &journal, &outcome).await? {
                Some(action) => Ok(action),
                None if stop(context, state, &this).await? == Some(Stop::Deleted) => {
                    deleted(context, store.as_ref(), &files, &journal, Some(size), &copying).await
                }
                None => Ok(Action::await_change()),
            }
        }
        Err(PassError::Failed(words)) => {
            report.error(&About::Server, &words, None);
            failed(context, state, &this, &journal, store.as_ref(), &files, &report, &words).await
        }
        other => match told(context, state, &this, &watch).await? {
            Some(Stop::Cancelled) => {
                let words = "cancelled while it ran; nothing of it can be restored";
                report.error(&About::Server, words, None);
                failed(context, state, &this, &journal, store.as_ref(), &files, &report, words).await
            }
            Some(Stop::Deleted) => {
                let written = other.ok().map(|outcome| outcome.size.compressed);
                deleted(context, store.as_ref(), &files, &journal, written, &copying).await
            }
            // The next leader begins the pass again.
            Some(Stop::Overtaken | Stop::Resting) | None => Ok(Action::await_change()),
        },
    }
}

/// Why the pass was told to end; where it found out by itself, the object says it.
async fn told(context: &Context, state: &State, this: &Run, watch: &Watch) -> Result<Option<Stop>, ApiError> {
    match watch.reason() {
        None => stop(context, state, this).await,
        reason => Ok(reason),
    }
}

/// Ends a pass whose object was deleted. `written`: the size of its archive, where it came so far.
async fn deleted(
    context: &Context,
    store: &dyn ObjectStore,
    files: &BackupFiles,
    journal: &Journal,
    written: Option<u64>,
    copying: &Copying,
) -> Result<Action, ApiError> {
    abort_uploads(store, files).await;
    if let Some(size) = written {
        remove_files(store, files, Some(size)).await;
    }
    snapshots::discard(context, journal).await;
    begun::discard(context, journal).await;
    copies::discard(context, journal.uid(), copying.objects(), "its Backup was deleted").await;
    movements::discard(context, journal.uid(), "its Backup was deleted").await;
    journal.remove().await;
    Ok(Action::await_change())
}

/// Looks whether the place is free, and clears what an interrupted attempt left.
async fn prepare(store: &dyn ObjectStore, files: &BackupFiles, again: bool) -> Result<(), String> {
    match store.exists(&files.metadata()).await {
        Ok(false) => {}
        Ok(true) => {
            return Err(format!(
                "{NAME_TAKEN}: {} is there; choose another name, or delete that backup",
                files.metadata()
            ));
        }
        Err(error) => {
            return Err(format!(
                "cannot look whether the backup exists in object storage: {}",
                chain(&error)
            ));
        }
    }
    if again {
        abort_uploads(store, files).await;
    }
    Ok(())
}

/// Takes away the parts of uploads that never ended. The archive is asked for by its whole key, because some servers show
/// an upload to nobody else.
pub(super) async fn abort_uploads(store: &dyn ObjectStore, files: &BackupFiles) {
    let aborted = async {
        let mut count = 0;
        for prefix in [files.contents(), files.log(), files.directory()] {
            count += store.abort_uploads(&prefix).await?;
        }
        Ok::<_, StoreError>(count)
    };
    match tokio::time::timeout(TIDYING, aborted).await {
        Ok(Ok(0)) => {}
        Ok(Ok(count)) => tracing::info!(backup = files.name(), count, "aborted open uploads"),
        Ok(Err(error)) => tracing::warn!(backup = files.name(), %error, "cannot abort open uploads"),
        Err(_) => tracing::warn!(backup = files.name(), "open uploads are not aborted in time"),
    }
}

async fn watched(
    context: &Context,
    ready: Ready,
    store: Arc<dyn ObjectStore>,
    watch: &Watch,
    copying: Arc<Copying>,
) -> Result<Outcome, PassError> {
    let counters = Arc::new(Counters::default());
    let settings = &context.settings.backup;
    let log = ready.report.log().clone();
    let lines = Arc::new(CountedLines::new(ready.report.clone()));
    let acting = context.acting(lines.clone());
    // A stock snapshotter keeps its whole program busy: not the one that runs actions.
    let session = context.plugins.session_within(lines, longest(&ready.backup));
    let snapshotters = snapshots::open(context, &session, &ready).await;
    let pass = run_pass(PassInput {
        client: context.client.clone(),
        backup: ready.backup,
        valid: ready.valid,
        catalogue: ready.catalogue,
        registry: acting.actions.clone(),
        commands: context.commands.clone(),
        journal: ready.journal,
        report: ready.report,
        store,
        counters: counters.clone(),
        stop: watch.stop.clone(),
        page_size: settings.page_size,
        workers: settings.workers,
        all_versions: settings.has_feature("EnableAPIGroupVersions"),
        directory: context.settings.storage.spool_directory.clone(),
        fence: Some(Fence {
            api: watch.api.clone(),
            name: watch.name.clone(),
            uid: watch.uid.clone(),
            attempt: watch.attempt,
        }),
        snapshotters: Arc::new(snapshotters),
        copying,
        velero_compatible: context.settings.movers.velero_compatible,
    });
    tokio::pin!(pass);
    let outcome = tokio::select! {
        outcome = &mut pass => outcome,
        // Told to end: what is open is brought to its end first.
        () = watch.follow(&counters) => pass.await,
    };
    acting.tell_usage(&log);
    tokio::join!(acting.close(), session.close());
    outcome
}

/// None where the object is gone or belongs to another attempt.
async fn passed(
    context: &Context,
    state: &State,
    this: &Run,
    journal: &Journal,
    outcome: &Outcome,
) -> Result<Option<Action>, ApiError> {
    let size = outcome.size.compressed;
    let notes = json!({ARCHIVE_BYTES: size.to_string()});
    let status = phase::passed(&outcome.counts);
    let Some(object) = write_noted(context, state, this, &status, &notes).await? else {
        return Ok(None);
    };
    journal.remove().await;
    match objects::typed::<Backup>(&object) {
        Ok(backup) if phase::finalized(backup.phase()).is_some() => {
            finalize::end(context, state, &backup, Some(size)).await.map(Some)
        }
        _ => Ok(Some(Action::await_change())),
    }
}

#[allow(clippy::too_many_arguments)] // all of it belongs to one run
async fn failed(
    context: &Context,
    state: &State,
    this: &Run,
    journal: &Journal,
    store: &dyn ObjectStore,
    files: &BackupFiles,
    report: &Report,
    words: &str,
) -> Result<Action, ApiError> {
    // Without the lead nothing may be written beside another attempt's files.
    if read(context, state, this).await?.is_some() {
        abort_uploads(store, files).await;
        if tokio::time::timeout(TIDYING, upload_failure(store, files, report)).await.is_err() {
            tracing::warn!(backup = files.name(), "the log of a failed backup is not written in time");
        }
    }
    fail(context, state, this, journal, Some((store, files)), words).await
}

/// `storage`: where something of it may be.
async fn fail(
    context: &Context,
    state: &State,
    this: &Run,
    journal: &Journal,
    storage: Option<(&dyn ObjectStore, &BackupFiles)>,
    words: &str,
) -> Result<Action, ApiError> {
    // Nothing of it can be restored, so nothing of it is to stay.
    let mut left = Discarded::default();
    if stop(context, state, this).await? != Some(Stop::Overtaken) {
        left = snapshots::discard(context, journal).await;
        left.words.extend(begun::discard(context, journal).await);
        left.words.extend(copies::discard(context, &this.uid, BTreeMap::new(), "its backup failed").await);
        left.words.extend(movements::discard(context, &this.uid, "its backup failed").await);
    }
    if let Some((store, files)) = storage {
        left.keep(store, files).await;
    }
    let words =
        std::iter::once(words).chain(left.words.iter().map(String::as_str)).collect::<Vec<_>>().join("; ");
    let words = words.as_str();
    let Some(object) = write(context, state, this, &phase::failed(words, context.now())).await? else {
        return Ok(Action::await_change());
    };
    snapshots::end_objects(context, &this.uid, words).await;
    journal.remove().await;
    context.events.warning(&object.object_ref(&state.resource), "Failed", words).await;
    if let Ok(backup) = objects::typed::<Backup>(&object) {
        finalize::count(context, &backup, None);
    }
    tracing::warn!(backup = object.name_any(), reason = words, "backup failed");
    Ok(Action::await_change())
}

/// Removes the files of a backup that was deleted before its end. Files beside an archive of another size than `size` are
/// another's, who writes a backup of the same name.
pub(super) async fn remove_files(store: &dyn ObjectStore, files: &BackupFiles, size: Option<u64>) {
    let removed = async {
        if store.exists(&files.metadata()).await? || !finalize::has_archive(store, files, size).await? {
            return Ok(());
        }
        let keys = store.keys(&files.directory()).await?;
        store.delete(&keys).await
    };
    match tokio::time::timeout(TIDYING, removed).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(backup = files.name(), %error, "cannot remove the files of a deleted backup");
        }
        Err(_) => {
            tracing::warn!(backup = files.name(), "the files of a deleted backup are not removed in time");
        }
    }
}
