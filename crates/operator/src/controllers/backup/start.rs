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
use lifeboat_plan::backup::validate::{Input, ValidBackup, validate};
use lifeboat_plan::backup::{ATTEMPT, CANCEL, attempt, is_cancelled, phase};
use lifeboat_plan::label;
use serde_json::{Value, json};

use super::gather::{Gathered, gather};
use super::pass::{Ready, abort_uploads, run};
use super::status::{Run, write};
use super::{State, finalize, queue};
use crate::backup::journal::Journal;
use crate::backup::{Report, run_open_posts};
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
    let report = report(context, &this.name)?;
    let journal = Journal::new(context.client.clone(), &context.settings.namespace, &backup);
    if again {
        // Before everything else: a pod may be frozen.
        run_open_posts(context.commands.as_ref(), &journal, &report)
            .await
            .map_err(|words| plain("run the hooks that an earlier attempt left open", words))?;
    }
    let earlier = Run { attempt: this.attempt - 1, ..this.clone() };
    let over = if is_cancelled(annotation(CANCEL)) {
        Some(format!("cancelled: the Backup has the annotation {CANCEL}"))
    } else {
        (this.attempt > MOST_ATTEMPTS).then(|| {
            format!("the server was interrupted {MOST_ATTEMPTS} times while it made this backup; its log says where")
        })
    };
    if let Some(reason) = over {
        if again && let Ok((store, files)) = finalize::open(context, &backup).await {
            abort_uploads(store.as_ref(), &files).await;
        }
        write(context, state, &earlier, &phase::failed(&reason, context.now())).await?;
        journal.remove().await;
        return Ok(Action::await_change());
    }
    let gathered = match gather(context, &backup.spec).await {
        Ok(gathered) => gathered,
        Err(error) if error.is_transient() => return Err(error),
        // Asking again would get the same answer.
        Err(error) => {
            let failed = phase::failed(&error.chain(), context.now());
            write(context, state, &earlier, &failed).await?;
            journal.remove().await;
            return Ok(Action::await_change());
        }
    };
    let spec = with_defaults(&backup.spec, &context.settings.backup.defaults, &gathered.around);
    let location = spec.storage_location.clone().unwrap_or_default();
    let valid = validate(Input {
        spec: &spec,
        catalogue: &gathered.discovered.catalogue,
        namespaces: &gathered.namespaces,
        location: gathered.location(&location),
        snapshot_locations: &gathered.snapshot_locations,
        policies: gathered.policies.clone(),
    });
    let valid = match valid {
        Ok(valid) => valid,
        Err(problems) => return refuse(context, state, &earlier, &object, &spec, &problems).await,
    };
    let Some(claimed) = claim(context, state, &object, &gathered, spec, &valid, this.attempt).await? else {
        return Ok(Action::await_change());
    };
    context.metrics.velero().backup_started(schedule(&claimed));
    for warning in &gathered.discovered.warnings {
        report.warning(&crate::backup::About::Server, warning, None);
    }
    let catalogue = Arc::new(gathered.discovered.catalogue);
    let ready = Ready { run: this, backup: claimed, valid, catalogue, report, journal, again };
    Box::pin(run(context, state, ready)).await
}

/// The schedule that made a backup; empty for others.
pub(super) fn schedule(backup: &Backup) -> &str {
    backup.labels().get(names::SCHEDULE_NAME).map_or("", String::as_str)
}

fn report(context: &Context, name: &str) -> Result<Report, ApiError> {
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
    run: &Run,
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
            write(context, state, run, &phase::refused(problems)).await?;
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
