//! Creates the object, or handles the existing one; then restores its status and its fields' owners, waits until a
//! CustomResourceDefinition is ready, and calls the handler for a new object.

use std::sync::Arc;
use std::time::Duration;

use lifeboat_cluster::ApiError;
use lifeboat_cluster::write::{Answer, Target, is_established, is_forbidden, is_port_taken};
use lifeboat_plan::catalogue::GroupResource;
use lifeboat_plan::items::sanitise::Taken;
use lifeboat_plan::items::{filter, trust};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::existing;
use super::item::{WorkItem, trusted};
use super::namespaces::already_exists;
use super::run::Run;
use super::target::target;
use crate::effects::{Awaited, Waited};
use crate::outcome::{ItemOutcome, Notes, SkipReason};
use crate::pace::Pace;

/// How long the API server may not know a type that was just defined.
const JUST_DEFINED: Duration = Duration::from_secs(15);

/// Creates the object in the cluster. The error is an outcome that was reached before anything was written.
pub(super) async fn apply(
    run: &Arc<Run>,
    item: &WorkItem,
    object: Value,
    taken: Taken,
    notes: &mut Notes,
) -> Result<ItemOutcome, ItemOutcome> {
    let target = target(run, item, &object)
        .map_err(|error| notes.fail(format!("error restoring {}: {error}", item.resource_id())))?;
    may_be_created(run, item, &target, &object, notes)?;
    let taken = Taken { status: taken.status.filter(|_| wants_status(run, item, &object)), ..taken };
    match create(run, item, &target, &object).await {
        Ok(made) => {
            after(run, item, &target, taken, &made, notes).await;
            Ok(ItemOutcome::Created)
        }
        // The API server checks quotas and policies before it checks whether the object exists.
        Err(error)
            if already_exists(&error)
                || is_forbidden(&error)
                || (item.is("services") && is_port_taken(&error)) =>
        {
            let conflict = existing::Conflict { item, target: &target, wanted: &object, error };
            let settled = existing::settle(run, conflict, notes).await;
            if let Some(ours) = settled.ours {
                // The attempt that created it may not have finished: its answer was lost, or its server died.
                after(run, item, &target, taken, &ours, notes).await;
            } else if settled.outcome.is_in_cluster() {
                run.handler.met_another(item, &target, notes);
            }
            Ok(settled.outcome)
        }
        Err(error) => Err(notes.fail(format!("error restoring {}: {}", item.resource_id(), cause(&error)))),
    }
}

/// Whether this object may be created: by its type and content after all actions and modifiers, whatever its directory in
/// the archive was.
fn may_be_created(
    run: &Run,
    item: &WorkItem,
    target: &Target,
    object: &Value,
    notes: &mut Notes,
) -> Result<(), ItemOutcome> {
    let resource = resource_of(target);
    if filter::is_never_created(&resource) {
        return Err(ItemOutcome::Skipped(SkipReason::NeverCreated));
    }
    trusted(run, |_| trust::judge(&resource, object))?;
    match run.take((resource, target.namespace.clone(), target.name.clone()), &item.id) {
        None => Ok(()),
        Some(other) => Err(notes.fail(format!(
            "error restoring {}: {} of this backup goes to the same place as {}; map their namespaces to different ones, or restore them one after the other",
            item.resource_id(), item.id, other
        ))),
    }
}

/// The type of the object that is written.
fn resource_of(target: &Target) -> GroupResource {
    let group = target.api_version.split_once('/').map_or("", |(group, _)| group);
    GroupResource::new(group, target.plural.clone())
}

/// The API server's message without the attempted request, which the caller's message names already.
pub(super) fn cause(error: &ApiError) -> String {
    error.source.to_string()
}

/// Creates the object; a pod is returned as the API server created it.
async fn create(run: &Run, item: &WorkItem, target: &Target, object: &Value) -> Result<Value, ApiError> {
    let answer = if item.is("pods") { Answer::Object } else { Answer::Nothing };
    let (start, mut pace) = (Instant::now(), Pace::default());
    loop {
        let error = match run.effects.create(target, object, answer).await {
            Ok(made) => return Ok(made),
            Err(error) => error,
        };
        // A type that was just defined, or two writers with a conflict at a quota.
        let passing = (error.is_not_found() && target.api_version.contains('.'))
            || (error.is_conflict() && !already_exists(&error));
        if !passing || start.elapsed() >= JUST_DEFINED {
            return Err(error);
        }
        if run.effects.wait(Awaited::Ready, pace.pause()).await == Waited::Assume {
            return Err(error);
        }
    }
}

fn wants_status(run: &Run, item: &WorkItem, object: &Value) -> bool {
    let annotations = object.pointer("/metadata/annotations");
    let annotation =
        annotations.and_then(|all| all.get(run.rules.status.annotation())).and_then(Value::as_str);
    run.rules.status.takes(&item.id.resource, annotation)
}

async fn restore_status(run: &Run, target: &Target, status: &Value, notes: &mut Notes) {
    let patch = json!({"status": status});
    if let Err(error) = run.effects.merge(target, Some("status"), &patch).await {
        notes.warn(format!("the status of {target} was not restored: {}", cause(&error)));
    }
}

/// Restores the owners of fields. Only server-side apply uses them, so only its entries are restored.
async fn restore_owners(run: &Run, target: &Target, fields: &Value, notes: &mut Notes) {
    let patch = json!({"metadata": {"managedFields": fields}});
    if let Err(error) = run.effects.merge(target, None, &patch).await {
        notes.warn(format!("the owners of the fields of {target} were not restored: {}", cause(&error)));
    }
}

/// The steps after the object exists and was created by this restore. They may be repeated.
async fn after(
    run: &Arc<Run>,
    item: &WorkItem,
    target: &Target,
    taken: Taken,
    made: &Value,
    notes: &mut Notes,
) {
    if let Some(status) = taken.status {
        restore_status(run, target, &status, notes).await;
    }
    if let Some(fields) = taken.applied_fields {
        restore_owners(run, target, &fields, notes).await;
    }
    run.handler.created(item, target, made, notes).await;
    if item.is("customresourcedefinitions.apiextensions.k8s.io")
        && let Err(error) = established(run, item, target).await
    {
        notes.error(error.to_string());
    }
}

/// Why it is not certain that the cluster serves the type of a restored CustomResourceDefinition. The messages begin as
/// upstream's.
#[derive(Debug, thiserror::Error)]
enum NotEstablished {
    #[error("error verifying the CRD {name} is ready to use: {cause}")]
    Unread { name: String, cause: String },
    #[error(
        "the CRD {name} is not available to use for custom resources; see its conditions (`kubectl get crd {name} -o yaml`)"
    )]
    Late { name: String },
}

/// Waits until a CustomResourceDefinition is established.
async fn established(run: &Run, item: &WorkItem, target: &Target) -> Result<(), NotEstablished> {
    let (start, mut pace) = (Instant::now(), Pace::default());
    let mut waiting = None;
    loop {
        match run.effects.get(target).await {
            Ok(Some(found)) if is_established(&found) => return Ok(()),
            Ok(_) => {}
            Err(error) => {
                return Err(NotEstablished::Unread { name: target.name.clone(), cause: cause(&error) });
            }
        }
        if start.elapsed() >= run.limits.resource {
            return Err(NotEstablished::Late { name: target.name.clone() });
        }
        waiting.get_or_insert_with(|| run.waiting(item, &["its condition Established".to_owned()], ""));
        if run.effects.wait(Awaited::Ready, pace.pause()).await == Waited::Assume {
            return Ok(());
        }
    }
}
