//! A restore whose items are done: its results so far, its files, and the work that is left. The stages after the
//! items ([`operations`], [`finalize`]) work on it; a server that starts in the middle of them reads it from storage.

pub(super) mod csi;
pub(super) mod finalize;
pub(super) mod operations;
pub(super) mod volumes;

use std::sync::Arc;
use std::time::Duration;

use kube::api::DynamicObject;
use kube::{Api, ResourceExt};
use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::{Restore, RestorePhase};
use lifeboat_archive::documents::{
    self, BackupVolumeInfo, LoadError, OperationPhase, ResourceList, RestoreOperation, RestoreVolumeInfo,
    Results,
};
use lifeboat_archive::{BackupFiles, ObjectStore, RestoreFiles, RunLog};
use lifeboat_plan::time;
use lifeboat_plan::velero::restore::outcome::{end_phase, phase_after_items};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::error::RestoreError;
use super::execute::RunEnd;
use super::prepare::{job_backup, journal};
use super::{gather, status};
use crate::context::Context;
use crate::locations;
use crate::metrics::Ending;
use crate::plugins::Acting;
use crate::restore::handler::OpenVolume;

/// How often a location that cannot be reached is tried again.
pub(super) const NEXT_TRY: Duration = Duration::from_secs(10);

/// A restore after its items, in memory and in storage.
pub(super) struct FinishingRestore<'a> {
    pub(super) context: &'a Context,
    /// The actions, and the plugins behind them.
    pub(super) acting: &'a Acting,
    pub(super) api: &'a Api<DynamicObject>,
    pub(super) restore: &'a Restore,
    pub(super) cancel: &'a CancellationToken,
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) files: RestoreFiles,
    /// None after a restart.
    pub(super) log: Option<RunLog>,
    /// The backup's volume info.
    pub(super) volumes: Vec<BackupVolumeInfo>,
    /// Volumes that were restored with their data.
    pub(super) made: Vec<RestoreVolumeInfo>,
    /// Volumes that plugins have not finished.
    pub(super) open: Vec<OpenVolume>,
    pub(super) list: ResourceList,
    pub(super) results: Results,
    pub(super) operations: Vec<RestoreOperation>,
    /// Whether errors were reported before, whatever the results in storage contain.
    pub(super) partial: bool,
    /// Status fields that only the first stage knows: progress, hooks.
    pub(super) of_items: Value,
    /// Whether results and operations changed since they were written to storage.
    pub(super) changed: bool,
}

impl<'a> FinishingRestore<'a> {
    /// Reads what another server left. Retries for as long as operations may take.
    pub(super) async fn reopen(
        context: &'a Context,
        api: &'a Api<DynamicObject>,
        restore: &'a Restore,
        cancel: &'a CancellationToken,
        acting: &'a Acting,
    ) -> Result<Self, RestoreError> {
        let until = Instant::now() + operation_timeout(context, restore);
        loop {
            let error = match Self::read(context, api, restore, cancel, acting).await {
                Ok(rest) => return Ok(rest),
                Err(error) => error,
            };
            if Instant::now() >= until {
                return Err(error);
            }
            tracing::warn!(restore = restore.name_any(), %error, "cannot continue a restore; trying again");
            pause(cancel, NEXT_TRY).await?;
        }
    }

    async fn read(
        context: &'a Context,
        api: &'a Api<DynamicObject>,
        restore: &'a Restore,
        cancel: &'a CancellationToken,
        acting: &'a Acting,
    ) -> Result<Self, RestoreError> {
        let gathered = gather::gather(context, restore).await?;
        let gone = || RestoreError::BackupGone(job_backup(restore).to_owned());
        let backup = gathered.backup.ok_or_else(gone)?;
        let location = backup.spec.storage_location.clone().unwrap_or_default();
        let location = locations::open(context, &location).await?;
        let files = RestoreFiles::new(&restore.name_any())?;
        let of_backup = BackupFiles::new(&backup.name_any())?;
        let store = location.store;
        let mut operations: Vec<RestoreOperation> =
            document(store.as_ref(), &files.item_operations()).await?.unwrap_or_default();
        // A read-only location has no list of operations.
        let noted = journal(context, restore).read().await?;
        let is_new = |one: &RestoreOperation| operations.iter().all(|known| known.spec != one.spec);
        let noted: Vec<RestoreOperation> = noted.operations().filter(is_new).collect();
        operations.extend(noted);
        let objects = volumes::all(context, restore).await?;
        let mut rest = Self {
            context,
            acting,
            api,
            restore,
            cancel,
            log: None,
            volumes: document(store.as_ref(), &of_backup.volume_info()).await?.unwrap_or_default(),
            list: document(store.as_ref(), &files.resource_list()).await?.unwrap_or_default(),
            results: document(store.as_ref(), &files.results()).await?.unwrap_or_default(),
            operations,
            made: Vec::new(),
            open: volumes::open(&objects).collect(),
            partial: restore.phase().as_str().ends_with("PartiallyFailed"),
            of_items: json!({}),
            changed: false,
            store,
            files,
        };
        volumes::report_failed(&mut rest, &objects);
        Ok(rest)
    }

    /// Adds an error to the log and the results.
    pub(super) fn error(&mut self, namespace: Option<&str>, message: impl Into<String>) {
        let message = message.into();
        if let Some(log) = &self.log {
            log.error(&message, &[("namespace", namespace.unwrap_or_default())]);
        }
        self.results.errors.add(namespace, message);
        self.changed = true;
    }

    /// Adds a warning to the log and the results; it does not change the phase.
    pub(super) fn warn(&mut self, namespace: Option<&str>, message: impl Into<String>) {
        let message = message.into();
        if let Some(log) = &self.log {
            log.warning(&message, &[("namespace", namespace.unwrap_or_default())]);
        }
        self.results.warnings.add(namespace, message);
        self.changed = true;
    }

    /// The number of errors, which decides the phase.
    fn errors(&self) -> usize {
        self.results.errors.count().max(usize::from(self.partial))
    }

    /// Whether operations or volumes are unfinished.
    pub(super) fn is_waiting(&self) -> bool {
        self.has_operations() || !self.open.is_empty()
    }

    /// Whether operations of actions are unfinished.
    pub(super) fn has_operations(&self) -> bool {
        self.operations.iter().any(|one| !one.status.phase.has_ended())
    }

    /// Writes the phase and the counts.
    pub(super) async fn show(&self) {
        let phase = phase_after_items(self.errors(), self.is_waiting());
        let patch = status::without_waits(json!({"status": self.status(&phase)}));
        if let Err(error) = status::write(self.api, self.restore, &patch).await {
            let error = error.chain();
            tracing::warn!(restore = self.restore.name_any(), error, "cannot write the status of a restore");
        }
    }

    fn status(&self, phase: &RestorePhase) -> Value {
        let mut status = self.of_items.clone();
        status["phase"] = json!(phase);
        let ended = |phase| self.operations.iter().filter(|one| one.status.phase == phase).count();
        let counts = [
            ("errors", self.results.errors.count()),
            ("warnings", self.results.warnings.count()),
            ("restoreItemOperationsAttempted", self.operations.len()),
            ("restoreItemOperationsCompleted", ended(OperationPhase::Completed)),
            ("restoreItemOperationsFailed", ended(OperationPhase::Failed)),
        ];
        for (field, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            status[field] = json!(count);
        }
        status
    }

    /// Writes all files, and returns the first error.
    pub(super) async fn write_all(&mut self) -> Result<(), RestoreError> {
        self.is_ours().await?;
        let mut problem = self.put(&self.files.resource_list(), &self.list).await.err();
        problem = problem.or(self.put(&self.files.volume_info(), &self.made).await.err());
        self.changed = true;
        let kept = self.keep().await.err();
        problem.or(kept).map_or(Ok(()), Err)
    }

    /// Writes the files that change after the items, if they changed: results, operations, log.
    pub(super) async fn keep(&mut self) -> Result<(), RestoreError> {
        if !self.changed {
            return Ok(());
        }
        self.is_ours().await?;
        let mut problem = self.put(&self.files.results(), &self.results).await.err();
        problem = problem.or(self.put(&self.files.item_operations(), &self.operations).await.err());
        if let Some(log) = &self.log
            && let Err(error) = log.upload(self.store.as_ref(), &self.files.log()).await
        {
            problem = problem.or(Some(RestoreError::LogUpload(locations::message(&error))));
        }
        self.changed = problem.is_some();
        problem.map_or(Ok(()), Err)
    }

    /// Checks that no other server has taken the restore over, because its files would be replaced. If the Restore
    /// cannot be read, the files are written: the lease decides who works.
    async fn is_ours(&self) -> Result<(), RestoreError> {
        match status::read(self.api, self.restore).await {
            Ok(None) => Err(RestoreError::Overtaken),
            _ => Ok(()),
        }
    }

    async fn put<T: Serialize + ?Sized>(&self, key: &str, document: &T) -> Result<(), RestoreError> {
        let body = documents::encode(document);
        let body = body.map_err(|error| RestoreError::format("write", key, &error))?;
        let written = self.store.put(key, body).await;
        written.map_err(|error| RestoreError::document("write", key, &error))
    }

    /// Waits; the error means that the restore was cancelled.
    pub(super) async fn pause(&self, time: Duration) -> Result<(), RestoreError> {
        pause(self.cancel, time).await
    }

    /// How the run ends.
    pub(super) fn over(&self) -> RunEnd {
        let (errors, warnings) = (self.results.errors.count(), self.results.warnings.count());
        let mut status = self.status(&end_phase(self.errors()));
        status["completionTimestamp"] = json!(time::seconds(self.context.now()));
        let items = self.list.count();
        RunEnd {
            patch: json!({"status": status}),
            ending: if self.errors() > 0 { Ending::PartiallyFailed } else { Ending::Completed },
            note: format!("{items} items, {warnings} warnings, {errors} errors"),
        }
    }

    /// Whether this restore created an object with this namespace and name.
    pub(super) fn created(&self, kind: &str, namespace: &str, name: &str) -> bool {
        created(&self.list, kind).any(|path| path.split_once('/') == Some((namespace, name)))
    }
}

/// The items of a kind that a restore created, as `namespace/name`.
pub(super) fn created<'a>(list: &'a ResourceList, kind: &str) -> impl Iterator<Item = &'a str> {
    let items = list.types().find(|(known, _)| *known == kind).map(|(_, items)| items);
    items.unwrap_or_default().iter().filter_map(|item| item.strip_suffix("(created)"))
}

/// How long operations may take.
pub(super) fn operation_timeout(context: &Context, restore: &Restore) -> Duration {
    let own = GoDuration::set(restore.spec.item_operation_timeout).and_then(GoDuration::to_std);
    own.unwrap_or(context.settings.restore.operation_timeout)
}

async fn pause(cancel: &CancellationToken, time: Duration) -> Result<(), RestoreError> {
    tokio::select! {
        () = cancel.cancelled() => Err(RestoreError::Cancelled),
        () = sleep(time) => Ok(()),
    }
}

/// A JSON file in storage; None if it does not exist or is null.
pub(super) async fn document<T>(store: &dyn ObjectStore, key: &str) -> Result<Option<T>, RestoreError>
where
    T: DeserializeOwned + Send + 'static,
{
    documents::load(store, key).await.map_err(|error| unreadable(key, error))
}

/// What `each` makes of the elements of a list in storage; empty if it does not exist.
pub(super) async fn elements<R: Send + 'static>(
    store: &dyn ObjectStore,
    key: &str,
    each: impl FnMut(Value) -> Option<R> + Send + 'static,
) -> Result<Vec<R>, RestoreError> {
    let made = documents::load_each(store, key, each).await;
    made.map(Option::unwrap_or_default).map_err(|error| unreadable(key, error))
}

fn unreadable(key: &str, error: LoadError) -> RestoreError {
    match error {
        LoadError::Store(error) => RestoreError::document("read", key, &error),
        LoadError::Document(error) => RestoreError::format("read", key, &error),
    }
}
