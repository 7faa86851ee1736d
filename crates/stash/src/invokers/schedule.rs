//! Creates the BackupSession of a due time. The name is derived from the due time, so a due time never gets two
//! sessions, even if the server died after it created one.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::controller::Action;
use kube::{Api, ResourceExt};
use lifeboat_api::stash::{BackupSession, GROUP};
use lifeboat_cluster::{ApiError, Attempt, MANAGER, objects};
use lifeboat_plan::schedule::{Past, Run, run};
use lifeboat_plan::stash::invoker::ValidBackup;
use lifeboat_plan::stash::restic::InstantRun;
use lifeboat_plan::stash::session::{
    Creation, ExistingSession, InvokerId, creation, due_annotation, labels, session_name, spec,
};

use super::invoker::Invoker;
use crate::context::Context;
use crate::repository::invoker_resource;

/// The result of checking the schedule.
pub(super) enum Scheduled {
    /// Nothing is due; the time at which to check again.
    Later(Action),
    /// The session of this time exists; the caller records the time.
    Made(Timestamp),
}

impl Scheduled {
    /// Sets the time of the last session if there is a new one, and returns when to check again.
    pub(super) fn record(self, last_due: &mut Option<Timestamp>) -> Action {
        match self {
            Self::Later(action) => action,
            Self::Made(due) => {
                *last_due = Some(due);
                Action::requeue(Duration::from_secs(1))
            }
        }
    }
}

/// Creates the session that is due, if there is one.
pub(super) async fn schedule(
    context: &Context,
    invoker: &Invoker,
    valid: &ValidBackup,
) -> Result<Scheduled, ApiError> {
    let due = match next_run(context, invoker, valid) {
        Run::Never => return Ok(Scheduled::Later(Action::await_change())),
        Run::Later(left) => return Ok(Scheduled::Later(Action::requeue(left))),
        Run::Due(due) => due,
    };
    let mut is_new = true;
    if !valid.paused {
        is_new = make_session(context, &invoker.id, due, |name| session(invoker, valid, name, due)).await?;
    }
    if let (false, Some(run)) = (is_new, invoker.instant_run()) {
        // Noted in the next reconcile, because it changes the object whose status this one writes.
        note_run(context, invoker, &run).await?;
        return Ok(Scheduled::Later(Action::await_change()));
    }
    Ok(Scheduled::Made(due))
}

/// When an invoker without a session that is due is looked at again; None where a session is due.
pub(super) fn rest(context: &Context, invoker: &Invoker, valid: &ValidBackup) -> Option<Action> {
    match next_run(context, invoker, valid) {
        Run::Never => Some(Action::await_change()),
        Run::Later(left) => Some(Action::requeue(left)),
        Run::Due(_) => None,
    }
}

fn next_run(context: &Context, invoker: &Invoker, valid: &ValidBackup) -> Run {
    let now = context.core.now();
    let Some(cron) = &valid.cron else {
        let run = invoker.instant_run().filter(|run| !run.is_done && !valid.paused);
        return run.map_or(Run::Never, |run| Run::Due(run.due));
    };
    let past = Past { created: invoker.created.unwrap_or(now), last: invoker.last_due, skipped: None };
    run(cron, &past, now)
}

/// Records that the only session of an invoker was created, in an annotation: it is not created again after the session was deleted,
/// or the invoker was restored from a backup of the cluster.
async fn note_run(context: &Context, invoker: &Invoker, run: &InstantRun) -> Result<(), ApiError> {
    let Some(resource) = invoker_resource(&invoker.id.kind) else { return Ok(()) };
    let api = objects::namespaced(&context.core.client, &invoker.id.namespace, &resource);
    let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
    match api.patch(&invoker.id.name, &params, &Patch::Merge(run.note())).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        noted => noted.attempt(format!("annotate {} {}", invoker.id.kind, invoker.id.name)).map(drop),
    }
}

/// Creates the session of a due time; false if it exists. `session` gives the object of a name.
pub(crate) async fn make_session(
    context: &Context,
    invoker: &InvokerId,
    due: Timestamp,
    session: impl Fn(&str) -> BackupSession,
) -> Result<bool, ApiError> {
    let api: Api<BackupSession> = Api::namespaced(context.core.client.clone(), &invoker.namespace);
    loop {
        let mut existing = Vec::new();
        for with_kind in [false, true] {
            let name = session_name(invoker, due, with_kind);
            let found = api.get_opt(&name).await.attempt(format!("read BackupSession {name}"))?;
            existing.extend(found.map(|found| ExistingSession { name, invoker: found.spec.invoker }));
        }
        let Creation::Create(name) = creation(invoker, due, &existing) else { return Ok(false) };
        match api.create(&PostParams::default(), &session(&name)).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            made => return made.attempt(format!("create BackupSession {name}")).map(|_| true),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn session(invoker: &Invoker, valid: &ValidBackup, name: &str, due: Timestamp) -> BackupSession {
    let mut session = BackupSession::new(name, spec(&invoker.id, invoker.retries()));
    let target = match valid.members.as_slice() {
        [member] if !invoker.is_batch() => member.target.as_ref().map(|target| &target.key),
        _ => None,
    };
    session.metadata.namespace = Some(invoker.id.namespace.clone());
    session.labels_mut().extend(labels(&invoker.id, target));
    session.annotations_mut().extend([due_annotation(due)]);
    session.metadata.owner_references = Some(vec![OwnerReference {
        api_version: invoker_resource(&invoker.id.kind)
            .map_or_else(|| format!("{GROUP}/v1beta1"), |resource| resource.api_version),
        kind: invoker.id.kind.to_string(),
        name: invoker.id.name.clone(),
        uid: invoker.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(false),
    }]);
    session
}
