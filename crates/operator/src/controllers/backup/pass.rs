//! Runs the pass of a claimed Backup and writes how it ended. The archive goes up while it runs, the files beside it after
//! it; the last writes are fenced: they happen only while the object still carries this attempt's number.

use std::sync::Arc;
use std::time::Duration;

use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use lifeboat_api::velero::Backup;
use lifeboat_archive::{BackupFiles, ObjectStore, StoreError};
use lifeboat_cluster::{ApiError, objects};
use lifeboat_plan::backup::phase;
use lifeboat_plan::backup::validate::ValidBackup;
use lifeboat_plan::catalogue::Catalogue;

use super::status::{Run, read, write};
use super::{State, finalize};
use crate::backup::journal::Journal;
use crate::backup::{
    About, Counters, Outcome, PassError, PassInput, Report, Stop, Watch, chain, run as run_pass,
    upload_failure, upload_outcome,
};
use crate::context::Context;
use crate::locations::{self, LocationError};

/// How long storage may take for what is done after a backup failed: people wait for its end, and it may be out of reach.
const TIDYING: Duration = Duration::from_mins(1);

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
}

pub(super) async fn run(context: &Context, state: &State, ready: Ready) -> Result<Action, ApiError> {
    let (this, report, journal) = (ready.run.clone(), ready.report.clone(), ready.journal.clone());
    let location = ready.backup.spec.storage_location.clone().unwrap_or_default();
    let store = match locations::open(context, &location).await {
        Ok(location) => location.store,
        Err(LocationError::Api(error)) => return Err(error),
        Err(error) => return fail(context, state, &this, &journal, &error.to_string()).await,
    };
    let files = match BackupFiles::new(&this.name) {
        Ok(files) => files,
        Err(error) => return fail(context, state, &this, &journal, &error.to_string()).await,
    };
    if let Err(words) = prepare(store.as_ref(), &files, ready.again).await {
        return fail(context, state, &this, &journal, &words).await;
    }
    let watch = Watch::new(state.api(context), &this.name, &this.uid, this.attempt, state.resting.clone());
    let outcome = Box::pin(watched(context, ready, store.clone(), &watch)).await;
    match outcome {
        Ok(outcome) if !matches!(watch.reason(), Some(Stop::Cancelled | Stop::Deleted | Stop::Overtaken)) => {
            if let Err(words) = upload_outcome(store.as_ref(), &files, &outcome, &report).await {
                report.error(&About::Server, &words, None);
                return failed(context, state, &this, &journal, store.as_ref(), &files, &report, &words)
                    .await;
            }
            passed(context, state, &this, &journal, &outcome).await
        }
        Err(PassError::Failed(words)) => {
            report.error(&About::Server, &words, None);
            failed(context, state, &this, &journal, store.as_ref(), &files, &report, &words).await
        }
        Ok(_) | Err(PassError::Stopped) => match watch.reason() {
            Some(Stop::Cancelled) => {
                let words = "cancelled while it ran; nothing of it can be restored";
                report.error(&About::Server, words, None);
                failed(context, state, &this, &journal, store.as_ref(), &files, &report, words).await
            }
            Some(Stop::Deleted) => {
                abort_uploads(store.as_ref(), &files).await;
                if tokio::time::timeout(TIDYING, remove_files(store.as_ref(), &files)).await.is_err() {
                    tracing::warn!(
                        backup = this.name,
                        "the files of a deleted backup are not removed in time"
                    );
                }
                journal.remove().await;
                Ok(Action::await_change())
            }
            // The next leader begins the pass again.
            Some(Stop::Overtaken | Stop::Resting) | None => Ok(Action::await_change()),
        },
    }
}

/// Looks whether the place is free, and clears what an interrupted attempt left.
async fn prepare(store: &dyn ObjectStore, files: &BackupFiles, again: bool) -> Result<(), String> {
    match store.exists(&files.metadata()).await {
        Ok(false) => {}
        Ok(true) => {
            return Err(format!(
                "backup already exists in object storage: {} is there; choose another name, or delete that backup",
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
) -> Result<Outcome, PassError> {
    let counters = Arc::new(Counters::default());
    let settings = &context.settings.backup;
    let pass = run_pass(PassInput {
        client: context.client.clone(),
        backup: ready.backup,
        valid: ready.valid,
        catalogue: ready.catalogue,
        registry: context.actions.as_ref().clone(),
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
    });
    tokio::pin!(pass);
    tokio::select! {
        outcome = &mut pass => outcome,
        // Told to end: what is open is brought to its end first.
        () = watch.follow(&counters) => pass.await,
    }
}

async fn passed(
    context: &Context,
    state: &State,
    this: &Run,
    journal: &Journal,
    outcome: &Outcome,
) -> Result<Action, ApiError> {
    // The fence: whoever lost the lead without noticing finds a higher attempt here.
    if read(context, state, this).await?.is_none() {
        return Ok(Action::await_change());
    }
    let Some(object) = write(context, state, this, &phase::passed(&outcome.counts)).await? else {
        return Ok(Action::await_change());
    };
    journal.remove().await;
    match objects::typed::<Backup>(&object) {
        Ok(backup) if phase::finalized(backup.phase()).is_some() => {
            finalize::end(context, state, &backup, Some(outcome.size.compressed)).await
        }
        _ => Ok(Action::await_change()),
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
    fail(context, state, this, journal, words).await
}

async fn fail(
    context: &Context,
    state: &State,
    this: &Run,
    journal: &Journal,
    words: &str,
) -> Result<Action, ApiError> {
    let Some(object) = write(context, state, this, &phase::failed(words, context.now())).await? else {
        return Ok(Action::await_change());
    };
    journal.remove().await;
    context.events.warning(&object.object_ref(&state.resource), "Failed", words).await;
    if let Ok(backup) = objects::typed::<Backup>(&object) {
        finalize::count(context, &backup, None);
    }
    tracing::warn!(backup = object.name_any(), reason = words, "backup failed");
    Ok(Action::await_change())
}

/// A backup that was deleted while it ran leaves nothing.
async fn remove_files(store: &dyn ObjectStore, files: &BackupFiles) {
    let removed = async {
        if store.exists(&files.metadata()).await? {
            return Ok(());
        }
        let keys = store.keys(&files.directory()).await?;
        store.delete(&keys).await
    };
    if let Err(error) = removed.await {
        tracing::warn!(backup = files.name(), %error, "cannot remove the files of a deleted backup");
    }
}
