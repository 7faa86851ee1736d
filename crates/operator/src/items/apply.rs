//! Creates the object, or finds out what is there; then its status, its fields' owners, a definition's readiness, a pod's
//! hooks.

use std::sync::Arc;
use std::time::Duration;

use lifeboat_api::velero::names::RESTORE_STATUS;
use lifeboat_archive::Spool;
use lifeboat_archive::documents::RestoreAction;
use lifeboat_cluster::ApiError;
use lifeboat_cluster::write::{Answer, Target, is_established, is_forbidden, is_port_taken};
use lifeboat_plan::catalogue::{Catalogue, GroupResource, ItemId, is_path_segment};
use lifeboat_plan::restore::sanitise::Taken;
use lifeboat_plan::restore::{filter, trust};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::existing;
use super::item::Subject;
use super::namespaces::exists;
use super::pace::Pace;
use super::run::Run;
use crate::restore::handler::hooks;
use crate::restore::handler::report::Notes;

/// How long a type that has just been defined may be unknown to the API server that is asked.
const JUST_DEFINED: Duration = Duration::from_secs(15);

/// Whether the object is in the cluster afterwards.
pub(crate) async fn apply(
    run: &Arc<Run>,
    subject: &Subject,
    object: Value,
    taken: Taken,
    notes: &mut Notes,
) -> bool {
    let target = match target(&run.catalogue, &run.spool, subject, &object) {
        Ok(target) => target,
        Err(words) => {
            notes.error(format!("error restoring {}: {words}", subject.resource_id()));
            return false;
        }
    };
    if !may_be(run, subject, &target, notes) {
        return false;
    }
    let taken = Taken { status: taken.status.filter(|_| wants_status(run, subject, &object)), ..taken };
    match create(run, subject, &target, &object).await {
        Ok(made) => {
            notes.action = Some(RestoreAction::Created);
            after(run, subject, &target, taken, &made, notes).await;
            true
        }
        // Quotas and policies are asked before anybody looks whether the object is there.
        Err(error)
            if exists(&error)
                || is_forbidden(&error)
                || (subject.is("services") && is_port_taken(&error)) =>
        {
            let met = existing::Met { subject, target: &target, wanted: &object, error };
            let found = existing::settle(run, met, notes).await;
            if let Some(ours) = found.ours {
                // Whoever created it may not have come further: a lost answer, a server that died.
                after(run, subject, &target, taken, &ours, notes).await;
            } else if let Some(filler) = run.filler.as_ref().filter(|_| subject.is("pods") && found.exists) {
                filler.refuse(&target, notes);
            }
            found.exists
        }
        Err(error) => {
            notes.error(format!("error restoring {}: {}", subject.resource_id(), words(&error)));
            false
        }
    }
}

/// Whether this object may be created: by what it is now, after all actions and modifiers, and wherever it lay in the archive.
fn may_be(run: &Run, subject: &Subject, target: &Target, notes: &mut Notes) -> bool {
    let resource = resource_of(target);
    if filter::is_never_created(&resource) {
        run.report.info("objects of this type are never restored", &subject.id);
        return false;
    }
    if let Some(location) = run.untrusted.as_deref().filter(|_| trust::is_privileged(&resource)) {
        notes.warn(trust::left_out(&subject.resource_id(), location));
        return false;
    }
    match run.take((resource, target.namespace.clone(), target.name.clone()), &subject.id) {
        None => true,
        Some(other) => {
            notes.error(format!(
                "error restoring {}: {} of this backup goes to the same place as {}; map their namespaces to different ones, or restore them one after the other",
                subject.resource_id(), subject.id, other
            ));
            false
        }
    }
}

/// The type that is written to.
pub(crate) fn resource_of(target: &Target) -> GroupResource {
    let group = target.api_version.split_once('/').map_or("", |(group, _)| group);
    GroupResource::new(group, target.plural.clone())
}

/// The API server's own words, without what was attempted: the message says that already.
pub(crate) fn words(error: &ApiError) -> String {
    error.source.to_string()
}

/// Where the object goes: its version must be served, and an action may have made another kind of it.
pub(crate) fn target(
    catalogue: &Catalogue,
    spool: &Spool,
    subject: &Subject,
    object: &Value,
) -> Result<Target, String> {
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let plural = if kind == subject.kind {
        subject.id.resource.resource.clone()
    } else {
        let known = catalogue.of_kind(&api_version, &kind);
        known
            .ok_or_else(|| {
                format!("an action made a {api_version} {kind} of it, which the cluster does not serve")
            })?
            .id
            .resource
            .clone()
    };
    let id = GroupResource::new(group, plural.clone());
    let version = api_version.rsplit_once('/').map_or(api_version.as_str(), |(_, version)| version);
    let served: Vec<&str> =
        catalogue.all().iter().filter(|known| known.id == id).map(|known| known.version.as_str()).collect();
    // A definition in the same backup may bring the version.
    let defined = spool.find(&ItemId::cluster(
        GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions"),
        id.to_string(),
    ));
    if served.is_empty() && defined.is_none() {
        return Err(format!(
            "the cluster does not serve {id}; install its definition and restore again, or leave the type out (--exclude-resources)"
        ));
    }
    if !served.contains(&version) && defined.is_none() {
        return Err(format!(
            "the cluster serves {id} as {}, the backup holds {version}; back it up again from a cluster that serves both (--features EnableAPIGroupVersions), or change it with a resource modifier",
            served.join(", ")
        ));
    }
    let name =
        object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or(&subject.id.name).to_owned();
    if !is_path_segment(&name) {
        return Err(format!(
            "an action or a resource modifier gave it the name {name:?}, which no object can have"
        ));
    }
    Ok(Target { api_version, plural, kind, namespace: subject.target.clone(), name })
}

/// Creates; the answer is the object where somebody needs it.
async fn create(run: &Run, subject: &Subject, target: &Target, object: &Value) -> Result<Value, ApiError> {
    let body = serde_json::to_vec(object).unwrap_or_default();
    let answer = if subject.is("pods") { Answer::Object } else { Answer::Nothing };
    let (start, mut pace) = (Instant::now(), Pace::default());
    loop {
        let error = match run.writer.create(target, body.clone(), answer).await {
            Ok(made) => return Ok(made),
            Err(error) => error,
        };
        // A type that was defined a moment ago, or two writers who met at a quota.
        let passing = (error.is_not_found() && target.api_version.contains('.'))
            || (error.is_conflict() && !exists(&error));
        if !passing || start.elapsed() >= JUST_DEFINED {
            return Err(error);
        }
        sleep(pace.next()).await;
    }
}

fn wants_status(run: &Run, subject: &Subject, object: &Value) -> bool {
    let annotations = object.pointer("/metadata/annotations");
    let annotation = annotations.and_then(|all| all.get(RESTORE_STATUS)).and_then(Value::as_str);
    run.valid.status.takes(&subject.id.resource, annotation)
}

async fn restore_status(run: &Run, target: &Target, status: &Value, notes: &mut Notes) {
    let patch = json!({"status": status});
    if let Err(error) = run.writer.merge(target, Some("status"), &patch).await {
        notes.warn(format!("the status of {target} was not restored: {}", words(&error)));
    }
}

/// Who owned which fields: asked by server-side appliers only, so only theirs are brought back.
async fn restore_owners(run: &Run, target: &Target, fields: &Value, notes: &mut Notes) {
    let patch = json!({"metadata": {"managedFields": fields}});
    if let Err(error) = run.writer.merge(target, None, &patch).await {
        notes.warn(format!("the owners of the fields of {target} were not restored: {}", words(&error)));
    }
}

/// What follows once the object is there as ours. Doing it twice ends the same.
async fn after(
    run: &Arc<Run>,
    subject: &Subject,
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
    if subject.is("pods") {
        if let Some(filler) = &run.filler {
            filler.begin(target, made, notes).await;
        }
        hooks::begin(run, target, made);
    }
    if subject.is("customresourcedefinitions.apiextensions.k8s.io")
        && let Err(words) = established(run, subject, target).await
    {
        notes.error(words);
    }
}

/// Waits until a definition can be used.
async fn established(run: &Run, subject: &Subject, target: &Target) -> Result<(), String> {
    let (start, mut pace) = (Instant::now(), Pace::default());
    let mut waiting = None;
    loop {
        match run.writer.get(target).await {
            Ok(Some(found)) if is_established(&found) => return Ok(()),
            Ok(_) => {}
            Err(error) => {
                return Err(format!(
                    "error verifying the CRD {} is ready to use: {}",
                    target.name,
                    words(&error)
                ));
            }
        }
        if start.elapsed() >= run.times.resource {
            return Err(format!("the CRD {} is not available to use for custom resources", target.name));
        }
        waiting.get_or_insert_with(|| run.waiting(subject, &["its condition Established".to_owned()], ""));
        sleep(pace.next()).await;
    }
}
