//! The start of a Backup, in steps: resume (end what an interrupted attempt left open), gather, validate, claim
//! (write phase InProgress and the attempt's number, if the object was not changed); the pass follows. A step that
//! prevents the pass returns a [`Halt`], which decides what happens to the Backup. Called by the controller.

mod gather;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use kube::api::DynamicObject;
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use lifeboat_api::velero::{Backup, BackupPhase, BackupSpec, names};
use lifeboat_archive::{Level, RunLog};
use lifeboat_cluster::{ApiError, objects};
use lifeboat_control::locked;
use lifeboat_plan::label;
use lifeboat_plan::velero::backup::defaults::{annotations, with_defaults};
use lifeboat_plan::velero::backup::undo::{Ending, Files, Stage};
use lifeboat_plan::velero::backup::validate::{Input, ValidBackup, validate};
use lifeboat_plan::velero::backup::{ATTEMPT, CANCEL, is_cancelled, phase};
use serde_json::{Value, json};

use self::gather::{Gathered, gather};
use super::counted::{count_refused, schedule};
use super::problem::{BackupProblem, wait};
use super::status::{Run, write};
use super::storage::{Storage, open};
use super::undo::{Undoing, cancel_noted, lower_consistency, write_failure};
use super::{State, queue};
use crate::backup::attempt::Ready;
use crate::backup::journal::Journal;
use crate::backup::pass::{About, Report, run_open_posts};
use crate::backup::volumes::native::SnapshotEntry;
use crate::context::Context;

/// How often a pass is started: one that was interrupted this often would be interrupted again.
const MOST_ATTEMPTS: u64 = 5;

/// When a start that failed for a reason other than the API server is tried again.
const AGAIN: Duration = Duration::from_secs(10);

/// The result of a start.
pub(super) enum Started {
    /// The Backup is claimed: its pass may run.
    Ready(Box<Ready>),
    /// The pass of the Backup does not run now.
    Halted(Action),
}

/// Starts a Backup that is ready, or claims an interrupted one again.
pub(super) async fn start(
    context: &Context,
    state: &State,
    object: DynamicObject,
    backup: Backup,
) -> Result<Started, ApiError> {
    let report = match report(context, &backup.name_any()) {
        Ok(report) => report,
        Err(error) => {
            let message = format!("cannot make a file for the log: {error}");
            return wait(context, state, &backup, BackupProblem::Disk(message)).await.map(Started::Halted);
        }
    };
    let mut run = Run::of(&backup);
    run.attempt += 1;
    let again = *backup.phase() == BackupPhase::InProgress;
    let journal = Journal::new(context.client.clone(), &context.namespace, &backup);
    let start = Start { context, state, object, backup, run, again, journal, report };
    match start.prepare().await {
        Ok(ready) => Ok(Started::Ready(Box::new(ready))),
        Err(halt) => start.halt(halt).await.map(Started::Halted),
    }
}

/// The log and the results of a backup.
pub(super) fn report(context: &Context, name: &str) -> io::Result<Report> {
    let full = format!("{}/{name}", context.namespace);
    let directory = &context.settings.storage.spool_directory;
    Ok(Report::new(RunLog::create(directory, &[("backup", &full)], Level::Info)?))
}

/// Why an attempt does not reach its pass.
enum Halt {
    /// The API server did not answer: the start is tried again.
    Api(ApiError),
    /// The start is tried again later.
    Later(StartError),
    /// The Backup waits for storage.
    Wait(BackupProblem),
    /// The backup has failed.
    GiveUp(String),
    /// The spec of the backup is invalid.
    Refuse(Box<BackupSpec>, Vec<String>),
    /// The object was changed in the meantime, which triggers the next reconcile.
    Changed,
}

impl From<StartError> for Halt {
    fn from(error: StartError) -> Self {
        Self::Later(error)
    }
}

/// A temporary failure that is not the API server's.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("cannot run the hooks that an earlier attempt left open: {}", .0.message())]
    Hooks(ApiError),
    #[error("cannot read which snapshots an earlier attempt began: {}", .0.message())]
    Snapshots(ApiError),
    #[error("cannot read which operations an earlier attempt began: {}", .0.message())]
    Operations(ApiError),
    #[error("cannot read the claimed Backup")]
    Claimed(#[source] serde_json::Error),
}

/// An attempt before its pass.
struct Start<'a> {
    context: &'a Context,
    state: &'a State,
    object: DynamicObject,
    backup: Backup,
    run: Run,
    /// Whether an earlier attempt reached its pass.
    again: bool,
    journal: Journal,
    report: Report,
}

impl Start<'_> {
    async fn prepare(&self) -> Result<Ready, Halt> {
        let earlier = if self.again { self.resume().await? } else { Vec::new() };
        self.check_limits()?;
        self.check_storage().await?;
        let gathered = self.gather().await?;
        let (spec, valid) = self.validate(&gathered)?;
        let backup = self.claim(&gathered, spec, &valid).await?;
        locked(&self.state.problem).remove(&self.run.uid);
        self.context.metrics.backup_started(schedule(&backup));
        let discovered = &gathered.discovered;
        for down in &discovered.unreachable {
            if valid.filter.may_miss(&down.group, &down.types, &discovered.catalogue) {
                self.report.error(&About::Server, &down.to_string(), None);
            } else {
                self.report.info(&down.to_string(), &[]);
            }
        }
        Ok(Ready {
            run: self.run.clone(),
            backup,
            valid,
            catalogue: Arc::new(gathered.discovered.catalogue),
            report: self.report.clone(),
            journal: self.journal.clone(),
            again: self.again,
            earlier,
        })
    }

    /// Ends what an interrupted attempt left open. Returns the plugin snapshots that it began.
    async fn resume(&self) -> Result<Vec<SnapshotEntry>, StartError> {
        let (context, journal, report) = (self.context, &self.journal, &self.report);
        // Before everything else, because a pod may still be quiesced.
        lower_consistency(context, &self.run.uid).await;
        run_open_posts(context.commands.as_ref(), journal, report).await.map_err(StartError::Hooks)?;
        let (earlier, unreadable) = journal.snapshots().await.map_err(StartError::Snapshots)?;
        for message in unreadable {
            report.warning(&About::Server, &message, None);
        }
        // This attempt starts the operations again.
        for message in cancel_noted(context, journal).await.map_err(StartError::Operations)? {
            report.error(&About::Server, &message, None);
        }
        Ok(earlier)
    }

    /// Checks that the backup was not cancelled and was not interrupted too often.
    fn check_limits(&self) -> Result<(), Halt> {
        if is_cancelled(self.backup.annotations().get(CANCEL).map(String::as_str)) {
            return Err(Halt::GiveUp(format!("cancelled: the Backup has the annotation {CANCEL}")));
        }
        if self.run.attempt > MOST_ATTEMPTS {
            return Err(Halt::GiveUp(format!(
                "the server was interrupted {MOST_ATTEMPTS} times while it made this backup; see the server's log"
            )));
        }
        Ok(())
    }

    /// Checks that storage can be used. Right after the start of a server the phase of a location is unknown; the
    /// Backup waits for a location that was Available before.
    async fn check_storage(&self) -> Result<(), Halt> {
        if self.again
            && let Err(problem @ BackupProblem::Storage(_)) = open(self.context, &self.backup).await
        {
            return Err(Halt::Wait(problem));
        }
        Ok(())
    }

    async fn gather(&self) -> Result<Gathered, Halt> {
        gather(self.context, &self.backup.spec).await.map_err(|error| {
            // Any other error would occur again.
            if error.is_transient() { Halt::Api(error) } else { Halt::GiveUp(error.chain()) }
        })
    }

    fn validate(&self, gathered: &Gathered) -> Result<(BackupSpec, ValidBackup), Halt> {
        let settings = &self.context.settings.backup;
        let spec = with_defaults(&self.backup.spec, &settings.defaults, &gathered.around);
        let location = spec.storage_location.clone().unwrap_or_default();
        let valid = validate(Input {
            spec: &spec,
            catalogue: &gathered.discovered.catalogue,
            namespaces: &gathered.namespaces,
            location: gathered.location(&location),
            snapshot_locations: &gathered.snapshot_locations,
            default_snapshot_locations: &settings.default_snapshot_locations,
            policies: gathered.policies.clone(),
            own: gathered.own.clone(),
        });
        match valid {
            Ok(valid) => Ok((spec, valid)),
            // An earlier attempt wrote files, which have to be removed.
            Err(problems) if self.again => Err(Halt::GiveUp(problems.join("; "))),
            Err(problems) => Err(Halt::Refuse(Box::new(spec), problems)),
        }
    }

    /// Writes defaults, annotations, the attempt and phase InProgress.
    async fn claim(
        &self,
        gathered: &Gathered,
        mut spec: BackupSpec,
        valid: &ValidBackup,
    ) -> Result<Backup, Halt> {
        let (context, state) = (self.context, self.state);
        if !valid.snapshot_locations.is_empty() {
            spec.volume_snapshot_locations = Some(valid.snapshot_locations.clone());
        }
        let defaults = &context.settings.backup.defaults;
        let mut notes: BTreeMap<String, String> =
            annotations(&gathered.discovered.version, defaults.resource_timeout);
        notes.insert(ATTEMPT.to_owned(), self.run.attempt.to_string());
        let location = spec.storage_location.clone().unwrap_or_default();
        let before = self.object.data.get("status").cloned().unwrap_or_default();
        let patch = json!({
            "metadata": {"labels": {names::STORAGE_LOCATION: label::value(&location)}, "annotations": notes},
            "spec": without_nulls(&spec),
            "status": phase::started(&before, spec.ttl.unwrap_or_default(), context.now()),
        });
        match objects::merge(&state.api(context), &self.object, patch).await {
            Ok(claimed) => {
                queue::remember(state, &claimed, BackupPhase::InProgress);
                Ok(objects::typed(&claimed).map_err(StartError::Claimed)?)
            }
            Err(error) if error.is_conflict() || error.is_not_found() => Err(Halt::Changed),
            Err(error) if is_refused(&error) => {
                Err(Halt::GiveUp(format!("the API server does not let the backup start: {}", error.chain())))
            }
            Err(error) => Err(Halt::Api(error)),
        }
    }

    /// Decides what happens to a Backup that does not reach its pass now.
    async fn halt(&self, halt: Halt) -> Result<Action, ApiError> {
        match halt {
            Halt::Api(error) => Err(error),
            Halt::Later(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(backup = self.run.name, error, "cannot start a backup yet");
                Ok(Action::requeue(AGAIN))
            }
            Halt::Wait(problem) => wait(self.context, self.state, &self.backup, problem).await,
            Halt::GiveUp(reason) => self.give_up(&reason).await,
            Halt::Refuse(spec, problems) => self.refuse(&spec, &problems).await,
            Halt::Changed => Ok(Action::await_change()),
        }
    }

    /// Fails the backup: undoes what earlier attempts made, and logs the reason.
    async fn give_up(&self, reason: &str) -> Result<Action, ApiError> {
        let storage = if self.again { own_storage(self.context, &self.backup).await } else { None };
        if let Some(storage) = &storage {
            self.report.error(&About::Server, reason, None);
            write_failure(storage.store(), &storage.files, &self.report).await;
        }
        let undoing = Undoing {
            context: self.context,
            ending: Ending::Failed,
            stage: Stage::Pass,
            files: if storage.is_some() { Files::Begun } else { Files::Unknown },
            journal: &self.journal,
            backup: Some(&self.backup),
            storage: storage.as_ref(),
            size: None,
            copies: BTreeMap::new(),
        };
        match undoing.fail(self.state, &Run::of(&self.backup), reason).await {
            Ok(_) => Ok(Action::await_change()),
            Err(error) if is_refused(&error) => {
                Ok(self.unwritable(BackupPhase::Failed, reason, &error).await)
            }
            Err(error) => Err(error),
        }
    }

    /// Ends the backup as FailedValidation.
    async fn refuse(&self, spec: &BackupSpec, problems: &[String]) -> Result<Action, ApiError> {
        let (context, state, object) = (self.context, self.state, &self.object);
        let about = object.object_ref(&state.resource);
        context.events.warning(&about, "FailedValidation", &problems.join("; ")).await;
        let location = label::value(spec.storage_location.as_deref().unwrap_or_default());
        let labels = json!({names::STORAGE_LOCATION: location});
        let patch = json!({"metadata": {"labels": labels}, "status": phase::refused(problems)});
        match objects::merge(&state.api(context), object, patch).await {
            Ok(object) => queue::remember(state, &object, BackupPhase::FailedValidation),
            Err(error) if error.is_conflict() => {
                write(context, state, &Run::of(&self.backup), &phase::refused(problems)).await?;
            }
            Err(error) if is_refused(&error) => {
                let phase = BackupPhase::FailedValidation;
                return Ok(self.unwritable(phase, &problems.join("; "), &error).await);
            }
            Err(error) => return Err(error),
        }
        count_refused(context, &self.backup);
        Ok(Action::await_change())
    }

    /// Called if the final phase of the backup cannot be written either: the backup leaves the queue, so that others
    /// can run.
    async fn unwritable(&self, phase: BackupPhase, message: &str, error: &ApiError) -> Action {
        let (context, state) = (self.context, self.state);
        queue::remember(state, &self.object, phase);
        context.refused.report(&context.events, &self.object, &state.resource, message, error).await
    }
}

/// The directory of a backup whose earlier attempt may have written there. None if it belongs to another backup of
/// the same name.
async fn own_storage(context: &Context, backup: &Backup) -> Option<Storage> {
    let storage = open(context, backup).await.ok()?;
    let taken = storage.store().exists(&storage.files.metadata()).await;
    matches!(taken, Ok(false)).then_some(storage)
}

/// Whether the API server, or an admission policy, refuses the change.
fn is_refused(error: &ApiError) -> bool {
    error.is_invalid() || error.code() == Some(403)
}

/// The spec as a merge patch: `null` would remove a field.
fn without_nulls(spec: &BackupSpec) -> Value {
    let mut value = serde_json::to_value(spec).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, field| !field.is_null());
    }
    value
}
