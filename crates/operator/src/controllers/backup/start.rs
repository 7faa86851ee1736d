//! The start of a pass: the post hooks that an earlier attempt left open, then defaults and validation, then the claim (phase
//! InProgress, attempt number, on the condition that nobody changed the object), then the pass.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::api::DynamicObject;
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use lifeboat_api::velero::{Backup, BackupPhase, BackupSpec, names};
use lifeboat_archive::{Level, RunLog};
use lifeboat_cluster::{ApiError, Cause, objects};
use lifeboat_plan::backup::defaults::{annotations, with_defaults};
use lifeboat_plan::backup::undo::{Ending, Files, Stage};
use lifeboat_plan::backup::validate::{Input, ValidBackup, validate};
use lifeboat_plan::backup::{ATTEMPT, CANCEL, attempt, is_cancelled, phase};
use lifeboat_plan::label;
use serde_json::{Value, json};

use super::gather::{Gathered, gather};
use super::pass::{Ready, run};
use super::status::{Run, write};
use super::storage::{Storage, open};
use super::undo::{Undoing, cancel_noted, lower_consistency, write_failure};
use super::{State, finalize, queue};
use crate::backup::journal::Journal;
use crate::backup::{About, Report, locked, run_open_posts};
use crate::context::Context;

/// A pass that ended so often without an end of the backup will not end well the next time either.
const MOST_ATTEMPTS: u64 = 5;

pub(super) async fn start(
    context: &Context,
    state: &State,
    object: DynamicObject,
    backup: Backup,
) -> Result<Action, ApiError> {
    let again = *backup.phase() == BackupPhase::InProgress;
    let annotation = |key: &str| backup.annotations().get(key).map(String::as_str);
    let this = Run {
        name: backup.name_any(),
        uid: backup.uid().unwrap_or_default(),
        attempt: attempt(annotation(ATTEMPT)) + 1,
    };
    let report = match report(context, &this.name) {
        Ok(report) => report,
        Err(error) => {
            return finalize::wait(context, state, &backup, finalize::Trouble::Disk(error.chain())).await;
        }
    };
    let journal = Journal::new(context.client.clone(), &context.settings.namespace, &backup);
    let mut earlier = Vec::new();
    if again {
        // Before everything else: a pod may be frozen.
        lower_consistency(context, &backup.uid().unwrap_or_default()).await;
        run_open_posts(context.commands.as_ref(), &journal, &report)
            .await
            .map_err(|words| plain("run the hooks that an earlier attempt left open", words))?;
        let (known, unreadable) = journal
            .snapshots()
            .await
            .map_err(|words| plain("read which snapshots an earlier attempt began", words))?;
        for words in unreadable {
            report.warning(&About::Server, &words, None);
        }
        earlier = known;
        // This attempt begins them anew.
        let going_on = cancel_noted(context, &journal)
            .await
            .map_err(|words| plain("read which operations an earlier attempt began", words))?;
        for words in going_on {
            report.error(&About::Server, &words, None);
        }
    }
    let given_up = GivenUp { object: &object, backup: &backup, journal: &journal, report: &report, again };
    let over = if is_cancelled(annotation(CANCEL)) {
        Some(format!("cancelled: the Backup has the annotation {CANCEL}"))
    } else {
        (this.attempt > MOST_ATTEMPTS).then(|| {
            format!("the server was interrupted {MOST_ATTEMPTS} times while it made this backup; its log says where")
        })
    };
    if let Some(reason) = over {
        return give_up(context, state, &given_up, &reason).await;
    }
    // A location is looked at anew when a server starts: one that was good before is waited for.
    if again && let Err(trouble @ finalize::Trouble::Storage(_)) = open(context, &backup).await {
        return finalize::wait(context, state, &backup, trouble).await;
    }
    let gathered = match gather(context, &backup.spec).await {
        Ok(gathered) => gathered,
        Err(error) if error.is_transient() => return Err(error),
        // Asking again would get the same answer.
        Err(error) => return give_up(context, state, &given_up, &error.chain()).await,
    };
    let spec = with_defaults(&backup.spec, &context.settings.backup.defaults, &gathered.around);
    let location = spec.storage_location.clone().unwrap_or_default();
    let valid = validate(Input {
        spec: &spec,
        catalogue: &gathered.discovered.catalogue,
        namespaces: &gathered.namespaces,
        location: gathered.location(&location),
        snapshot_locations: &gathered.snapshot_locations,
        default_snapshot_locations: &context.settings.backup.default_snapshot_locations,
        policies: gathered.policies.clone(),
    });
    let valid = match valid {
        Ok(valid) => valid,
        // It has begun, so that there are files of it.
        Err(problems) if again => return give_up(context, state, &given_up, &problems.join("; ")).await,
        Err(problems) => return refuse(context, state, &backup, &object, &spec, &problems).await,
    };
    let claimed = match claim(context, state, &object, &gathered, spec, &valid, this.attempt).await {
        Ok(Some(claimed)) => claimed,
        Ok(None) => return Ok(Action::await_change()),
        Err(error) if is_refused(&error) => {
            let words = format!("the API server does not let the backup start: {}", error.chain());
            return give_up(context, state, &given_up, &words).await;
        }
        Err(error) => return Err(error),
    };
    locked(&state.trouble).remove(&this.uid);
    context.metrics.velero().backup_started(schedule(&claimed));
    for warning in &gathered.discovered.warnings {
        report.warning(&About::Server, warning, None);
    }
    let catalogue = Arc::new(gathered.discovered.catalogue);
    let ready = Ready { run: this, backup: claimed, valid, catalogue, report, journal, again, earlier };
    Box::pin(run(context, state, ready)).await
}

/// The schedule that made a backup; empty for others.
pub(super) fn schedule(backup: &Backup) -> &str {
    backup.labels().get(names::SCHEDULE_NAME).map_or("", String::as_str)
}

/// An attempt that does not come to its pass.
struct GivenUp<'a> {
    object: &'a DynamicObject,
    backup: &'a Backup,
    journal: &'a Journal,
    report: &'a Report,
    /// Whether an earlier attempt came to it.
    again: bool,
}

/// The backup has failed: what an earlier attempt made is undone, and the log says why.
async fn give_up(
    context: &Context,
    state: &State,
    over: &GivenUp<'_>,
    reason: &str,
) -> Result<Action, ApiError> {
    let storage = if over.again { own_storage(context, over.backup).await } else { None };
    if let Some(storage) = &storage {
        over.report.error(&About::Server, reason, None);
        write_failure(storage.store(), &storage.files, over.report).await;
    }
    let undoing = Undoing {
        context,
        ending: Ending::Failed,
        stage: Stage::Pass,
        files: if storage.is_some() { Files::Begun } else { Files::Unknown },
        journal: over.journal,
        backup: Some(over.backup),
        storage: storage.as_ref(),
        size: None,
        copies: BTreeMap::new(),
    };
    match undoing.fail(state, &finalize::run_of(over.backup), reason).await {
        Ok(_) => Ok(Action::await_change()),
        Err(error) if is_refused(&error) => {
            Ok(unwritable(context, state, over.object, BackupPhase::Failed, reason, &error).await)
        }
        Err(error) => Err(error),
    }
}

/// The place of a backup whose earlier attempt may have written there. None where another backup has its name.
async fn own_storage(context: &Context, backup: &Backup) -> Option<Storage> {
    let storage = open(context, backup).await.ok()?;
    let taken = storage.store().exists(&storage.files.metadata()).await;
    matches!(taken, Ok(false)).then_some(storage)
}

/// Not even its end can be written: it must not keep others waiting.
async fn unwritable(
    context: &Context,
    state: &State,
    object: &DynamicObject,
    phase: BackupPhase,
    words: &str,
    error: &ApiError,
) -> Action {
    queue::remember(state, object, phase);
    context.refused.tell(&context.events, object, &state.resource, words, error).await
}

/// The API server, or a policy of it, does not want the change.
fn is_refused(error: &ApiError) -> bool {
    error.is_invalid() || error.code() == Some(403)
}

pub(super) fn report(context: &Context, name: &str) -> Result<Report, ApiError> {
    let full = format!("{}/{name}", context.settings.namespace);
    let log = RunLog::create(&context.settings.storage.spool_directory, &[("backup", &full)], Level::Info)
        .map_err(|error| plain("make a file for the log", error.to_string()))?;
    Ok(Report::new(log))
}

/// A failure that is none of the API's, to be tried again.
fn plain(attempt: &str, words: String) -> ApiError {
    let source = Cause::Other(kube::Error::Service(words.into()));
    ApiError { attempt: attempt.to_owned(), source }
}

async fn refuse(
    context: &Context,
    state: &State,
    backup: &Backup,
    object: &DynamicObject,
    spec: &BackupSpec,
    problems: &[String],
) -> Result<Action, ApiError> {
    let about = object.object_ref(&state.resource);
    context.events.warning(&about, "FailedValidation", &problems.join("; ")).await;
    let labels =
        json!({names::STORAGE_LOCATION: label::value(spec.storage_location.as_deref().unwrap_or_default())});
    let patch = json!({"metadata": {"labels": labels}, "status": phase::refused(problems)});
    match objects::merge(&state.api(context), object, patch).await {
        Ok(object) => queue::remember(state, &object, BackupPhase::FailedValidation),
        Err(error) if error.is_conflict() => {
            write(context, state, &finalize::run_of(backup), &phase::refused(problems)).await?;
        }
        Err(error) if is_refused(&error) => {
            let words = problems.join("; ");
            let phase = BackupPhase::FailedValidation;
            return Ok(unwritable(context, state, object, phase, &words, &error).await);
        }
        Err(error) => return Err(error),
    }
    let end = lifeboat_web::BackupEnd {
        ending: lifeboat_web::Ending::FailedValidation,
        duration: std::time::Duration::ZERO,
        items: 0,
        errors: 0,
        warnings: 0,
        archive_bytes: None,
        ended_at: context.now().as_second(),
    };
    let schedule = object.labels().get(names::SCHEDULE_NAME).map_or("", String::as_str);
    context.metrics.velero().backup_ended(schedule, &end);
    Ok(Action::await_change())
}

/// Writes defaults, annotations, the attempt and phase InProgress; None where somebody changed the object meanwhile.
async fn claim(
    context: &Context,
    state: &State,
    object: &DynamicObject,
    gathered: &Gathered,
    mut spec: BackupSpec,
    valid: &ValidBackup,
    attempt: u64,
) -> Result<Option<Backup>, ApiError> {
    if !valid.snapshot_locations.is_empty() {
        spec.volume_snapshot_locations = Some(valid.snapshot_locations.clone());
    }
    let mut notes: BTreeMap<String, String> =
        annotations(&gathered.discovered.version, context.settings.backup.defaults.resource_timeout);
    notes.insert(ATTEMPT.to_owned(), attempt.to_string());
    let location = spec.storage_location.clone().unwrap_or_default();
    let before = object.data.get("status").cloned().unwrap_or_default();
    let patch = json!({
        "metadata": {"labels": {names::STORAGE_LOCATION: label::value(&location)}, "annotations": notes},
        "spec": without_nulls(&spec),
        "status": phase::started(&before, spec.ttl.unwrap_or_default(), context.now()),
    });
    match objects::merge(&state.api(context), object, patch).await {
        Ok(claimed) => {
            queue::remember(state, &claimed, BackupPhase::InProgress);
            objects::typed(&claimed)
                .map(Some)
                .map_err(|error| plain("read the claimed Backup", error.to_string()))
        }
        Err(error) if error.is_conflict() || error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// A `null` in a merge patch removes a field.
fn without_nulls(spec: &BackupSpec) -> Value {
    let mut value = serde_json::to_value(spec).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, field| !field.is_null());
    }
    value
}
