//! Runs the pass of a claimed Backup and writes how it ended. The archive is uploaded while the pass runs, the files
//! beside it afterwards. Before the archive becomes visible, before those files and before the status, the object is
//! read again to check that it still has this attempt's number.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::ResourceExt;
use kube::runtime::controller::Action;
use lifeboat_api::velero::{Backup, names};
use lifeboat_archive::{BackupFiles, ObjectStore, StoreError};
use lifeboat_cluster::{ApiError, objects};
use lifeboat_plan::catalogue::Catalogue;
use lifeboat_plan::items::waits::WAITING;
use lifeboat_plan::velero::backup::undo::{Ending, Files, Stage};
use lifeboat_plan::velero::backup::validate::ValidBackup;
use lifeboat_plan::velero::backup::{ARCHIVE_BYTES, phase};
use lifeboat_plan::velero::deletion::NAME_TAKEN;
use serde_json::{Value, json};

use super::plugin_lines::CountedLines;
use super::status::{Run, stop, write_noted};
use super::storage::{Storage, open_patient};
use super::undo::{Undoing, abort_uploads, discard_others, write_failure};
use super::volumes::native::open::open as open_snapshotters;
use super::{State, finish};
use crate::backup::journal::Journal;
use crate::backup::pass::{
    About, Counters, Fence, Outcome, PassError, PassFailure, PassInput, Report, Stop, UploadError, Watch,
    longest, run as run_pass, upload_outcome,
};
use crate::backup::problem::BackupProblem;
use crate::backup::volumes::copies::Copying;
use crate::backup::volumes::native::SnapshotEntry;
use crate::context::Context;
use crate::locations::{Location, message};
use crate::ownership;
use crate::storage_away::StorageAway;
use lifeboat_plan::velero::ownership::OwnerId;

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
    /// The plugin snapshots that the earlier attempt began.
    pub(super) earlier: Vec<SnapshotEntry>,
}

/// The end of an attempt.
pub(super) struct AttemptEnd {
    pub(super) next: Action,
    /// The category of the error with which the backup failed.
    pub(super) failed: Option<&'static str>,
}

impl From<Action> for AttemptEnd {
    /// An attempt that did not fail.
    fn from(next: Action) -> Self {
        Self { next, failed: None }
    }
}

pub(super) async fn run(context: &Context, state: &State, ready: Ready) -> Result<AttemptEnd, ApiError> {
    let (this, report, journal) = (ready.run.clone(), ready.report.clone(), ready.journal.clone());
    let backup = ready.backup.clone();
    let mut over = Over { context, state, run: &this, backup: &backup, journal: &journal, storage: None };
    let storage = match open_patient(context, &backup).await {
        Ok(storage) => storage,
        Err(BackupProblem::Api(error)) => return Err(error),
        Err(problem) => return over.fail(&problem.into(), BTreeMap::new()).await,
    };
    if let Err(error) = prepare(storage.store(), &storage.files, ready.again).await {
        return over.fail(&error.into(), BTreeMap::new()).await;
    }
    over.storage = Some(&storage);
    let timeout = ready.backup.annotations().get(names::POD_VOLUME_TIMEOUT).map(String::as_str);
    let copying = Copying::new(&context.client, &context.namespace, &context.movers);
    let copying = Arc::new(copying.within(timeout));
    let location = &storage.location;
    let shown = format!("storage location {}", location.name);
    let away = StorageAway::new("the backup", shown, &location.outage, &context.clock);
    let watch = Watch::new(state.api(context), &this.name, &this.uid, this.attempt, state.shutdown.clone())
        .with_storage(away)
        .showing(ready.backup.annotations().get(WAITING));
    let outcome = Box::pin(watched(context, ready, location, &watch, copying.clone())).await;
    match outcome {
        Ok(outcome) if !matches!(watch.reason(), Some(Stop::Cancelled | Stop::Deleted | Stop::Overtaken)) => {
            Box::pin(over.written(&outcome, &report, &copying, &watch)).await
        }
        Err(PassError::Failed(failure)) => over.failed(&report, &failure.into(), &copying).await,
        other => match stop_reason(context, state, &this, &watch).await? {
            Some(Stop::Cancelled) => over.failed(&report, &AttemptError::Cancelled, &copying).await,
            Some(Stop::Deleted) => {
                let size = other.ok().map(|outcome| outcome.size.compressed);
                over.deleted(size, &copying).await
            }
            // The next leader starts the pass again.
            Some(Stop::Overtaken | Stop::Shutdown) | None => Ok(Action::await_change().into()),
        },
    }
}

/// Why the pass was stopped; read from the object if the pass stopped by itself.
async fn stop_reason(
    context: &Context,
    state: &State,
    this: &Run,
    watch: &Watch,
) -> Result<Option<Stop>, ApiError> {
    match watch.reason() {
        None => stop(context, state, this).await,
        reason => Ok(reason),
    }
}

/// A pass that has ended, with what is needed to write its result.
struct Over<'a> {
    context: &'a Context,
    state: &'a State,
    run: &'a Run,
    backup: &'a Backup,
    journal: &'a Journal,
    /// None until it is certain that no other backup has this directory.
    storage: Option<&'a Storage>,
}

impl Over<'_> {
    /// The pass wrote the archive: uploads the other files and writes the next phase.
    async fn written(
        &self,
        outcome: &Outcome,
        report: &Report,
        copying: &Copying,
        watch: &Watch,
    ) -> Result<AttemptEnd, ApiError> {
        let (context, state, this) = (self.context, self.state, self.run);
        let Some(storage) = self.storage else { return Ok(Action::await_change().into()) };
        let size = outcome.size.compressed;
        // The fence: a server that lost the lease without noticing finds a higher attempt number here.
        match stop(context, state, this).await? {
            Some(Stop::Deleted) => return self.deleted(Some(size), copying).await,
            Some(Stop::Overtaken) => return Ok(Action::await_change().into()),
            _ => {}
        }
        discard_others(context, &this.uid, &copying.objects()).await;
        let keys = ownership::keys(context).await?;
        let owner = OwnerId { backup: storage.files.name(), uid: this.uid.as_str() };
        let proofs = (&keys, owner);
        let uploading = upload_outcome(storage.store(), &storage.files, outcome, report, proofs);
        let counters = Counters::of_written(outcome.counts.items);
        let uploaded = tokio::select! {
            uploaded = uploading => uploaded,
            // Storage may be away for a long time; meanwhile another attempt may write the files.
            () = watch.follow(&counters) => {
                return match watch.reason() {
                    Some(Stop::Cancelled) => self.failed(report, &AttemptError::Cancelled, copying).await,
                    Some(Stop::Deleted) => self.deleted(Some(size), copying).await,
                    _ => Ok(Action::await_change().into()),
                };
            }
        };
        if let Err(error) = uploaded {
            return self.failed(report, &error.into(), copying).await;
        }
        if !outcome.snapshots.is_empty() {
            self.journal.note_passed().await;
        }
        match Box::pin(passed(context, state, this, self.journal, outcome)).await? {
            Some(action) => Ok(action.into()),
            None if stop(context, state, this).await? == Some(Stop::Deleted) => {
                self.deleted(Some(size), copying).await
            }
            None => Ok(Action::await_change().into()),
        }
    }

    /// The Backup was deleted: undoes what the pass made. `written`: the size of the archive, if it was written.
    async fn deleted(&self, written: Option<u64>, copying: &Copying) -> Result<AttemptEnd, ApiError> {
        let files = if written.is_some() { Files::Own } else { Files::Begun };
        let undoing = self.undoing(Ending::Deleted, files, written, copying.objects());
        undoing.carry_out().await;
        Ok(Action::await_change().into())
    }

    /// The pass failed and nothing of it can be restored; the uploaded log and results contain the reason.
    async fn failed(
        &self,
        report: &Report,
        error: &AttemptError,
        copying: &Copying,
    ) -> Result<AttemptEnd, ApiError> {
        report.error(&About::Server, &error.to_string(), None);
        match stop(self.context, self.state, self.run).await? {
            Some(Stop::Deleted) => return self.deleted(None, copying).await,
            // A server that lost the lease must not write beside another attempt's files.
            Some(Stop::Overtaken) => return Ok(Action::await_change().into()),
            _ => {}
        }
        if let Some(Storage { location, files }) = self.storage {
            write_failure(location.store.as_ref(), files, report).await;
        }
        self.fail(error, copying.objects()).await
    }

    async fn fail(
        &self,
        error: &AttemptError,
        copies: BTreeMap<String, Value>,
    ) -> Result<AttemptEnd, ApiError> {
        let files = if self.storage.is_some() { Files::Begun } else { Files::Unknown };
        let undoing = self.undoing(Ending::Failed, files, None, copies);
        undoing.fail(self.state, self.run, &error.to_string()).await?;
        Ok(AttemptEnd { next: Action::await_change(), failed: Some(error.category()) })
    }

    fn undoing(
        &self,
        ending: Ending,
        files: Files,
        size: Option<u64>,
        copies: BTreeMap<String, Value>,
    ) -> Undoing<'_> {
        Undoing {
            context: self.context,
            ending,
            stage: Stage::Pass,
            files,
            journal: self.journal,
            backup: Some(self.backup),
            storage: self.storage,
            size,
            copies,
        }
    }
}

/// Why an attempt ended without a backup; the message is the Backup's `failureReason`.
#[derive(Debug, thiserror::Error)]
enum AttemptError {
    #[error("cancelled while it ran; nothing of it can be restored")]
    Cancelled,
    #[error(transparent)]
    Problem(#[from] BackupProblem),
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error("{}", .0.message())]
    Pass(#[from] PassFailure),
    #[error(transparent)]
    Upload(#[from] UploadError),
}

impl AttemptError {
    /// A word from a fixed list, for metrics and logs.
    fn category(&self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Problem(problem) => problem.category(),
            Self::Directory(DirectoryError::Taken(_)) => "already_exists",
            Self::Directory(DirectoryError::Unknown(error)) => error.category(),
            Self::Pass(failure) => failure.category(),
            Self::Upload(error) => error.category(),
        }
    }
}

/// Why a backup cannot use its directory in storage.
#[derive(Debug, thiserror::Error)]
enum DirectoryError {
    #[error("{taken}: {0} exists; choose another name, or delete that backup", taken = NAME_TAKEN)]
    Taken(String),
    #[error("cannot check whether the backup exists in object storage: {}", message(.0))]
    Unknown(#[from] StoreError),
}

/// Checks that no other backup has this directory, and removes what an interrupted attempt left there.
async fn prepare(store: &dyn ObjectStore, files: &BackupFiles, again: bool) -> Result<(), DirectoryError> {
    if store.exists(&files.metadata()).await? {
        return Err(DirectoryError::Taken(files.metadata()));
    }
    if again {
        abort_uploads(store, files).await;
    }
    Ok(())
}

async fn watched(
    context: &Context,
    ready: Ready,
    location: &Location,
    watch: &Watch,
    copying: Arc<Copying>,
) -> Result<Outcome, PassError> {
    let counters = Arc::new(Counters::default());
    let settings = &context.settings.backup;
    let log = ready.report.log().clone();
    let lines = Arc::new(CountedLines::new(ready.report.clone()));
    let acting = context.acting(lines.clone());
    // A snapshotter plugin of upstream's SDK keeps its whole process busy, so it gets a process apart from the one
    // that runs actions.
    let session = context.plugins.session_within(lines, longest(&ready.backup));
    let snapshotters = open_snapshotters(context, &session, &ready).await;
    let pass = run_pass(PassInput {
        client: context.client.clone(),
        clock: context.clock.clone(),
        backup: ready.backup,
        valid: ready.valid,
        catalogue: ready.catalogue,
        registry: acting.actions.clone(),
        commands: context.commands.clone(),
        journal: ready.journal,
        report: ready.report,
        store: location.store.clone(),
        outage: location.outage.clone(),
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
        velero_compatible: settings.velero_compatible,
    });
    tokio::pin!(pass);
    let outcome = tokio::select! {
        outcome = &mut pass => outcome,
        // Stopped: the post hooks of quiesced pods still run.
        () = watch.follow(&counters) => pass.await,
    };
    acting.log_usage(&log);
    tokio::join!(acting.close(), session.close());
    outcome
}

/// None if the object is gone or belongs to another attempt.
async fn passed(
    context: &Context,
    state: &State,
    this: &Run,
    journal: &Journal,
    outcome: &Outcome,
) -> Result<Option<Action>, ApiError> {
    let size = outcome.size.compressed;
    let notes = json!({ARCHIVE_BYTES: size.to_string(), WAITING: null});
    let status = phase::passed(&outcome.counts);
    let Some(object) = write_noted(context, state, this, &status, &notes).await? else {
        return Ok(None);
    };
    journal.end_pass().await;
    let Ok(backup) = objects::typed::<Backup>(&object) else { return Ok(Some(Action::await_change())) };
    finish::deleted::follow(state, &backup);
    if phase::finalized(backup.phase()).is_some() {
        return finish::end(context, state, &backup, Some(size)).await.map(Some);
    }
    Ok(Some(Action::await_change()))
}
