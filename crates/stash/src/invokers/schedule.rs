//! Makes the BackupSession of a due time. The name is the guard: no time has two sessions, and none that this server made before it
//! died is made again.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::PostParams;
use kube::runtime::controller::Action;
use kube::{Api, ResourceExt};
use lifeboat_api::stash::{BackupSession, GROUP};
use lifeboat_cluster::{ApiError, Attempt};
use lifeboat_plan::schedule::{Past, Run, run};
use lifeboat_plan::stash::invoker::ValidBackup;
use lifeboat_plan::stash::session::{
    Creation, ExistingSession, creation, due_annotation, labels, session_name, spec,
};

use super::invoker::Invoker;
use crate::context::Context;

/// What became of the schedule at this look.
pub(super) enum Scheduled {
    /// Nothing is due; look again then.
    Later(Action),
    /// The session of this time exists: to be put on record.
    Made(Timestamp),
}

/// Makes the session that is due, if one is.
pub(super) async fn schedule(
    context: &Context,
    invoker: &Invoker,
    valid: &ValidBackup,
) -> Result<Scheduled, ApiError> {
    let now = context.core.now();
    let past = Past { created: invoker.created.unwrap_or(now), last: invoker.last_due, skipped: None };
    let due = match run(&valid.cron, &past, now) {
        Run::Never => return Ok(Scheduled::Later(Action::await_change())),
        Run::Later(left) => return Ok(Scheduled::Later(Action::requeue(left))),
        Run::Due(due) => due,
    };
    if !valid.paused {
        make(context, invoker, valid, due).await?;
    }
    Ok(Scheduled::Made(due))
}

async fn make(
    context: &Context,
    invoker: &Invoker,
    valid: &ValidBackup,
    due: Timestamp,
) -> Result<(), ApiError> {
    let api: Api<BackupSession> = Api::namespaced(context.core.client.clone(), &invoker.id.namespace);
    loop {
        let mut existing = Vec::new();
        for with_kind in [false, true] {
            let name = session_name(&invoker.id, due, with_kind);
            let found = api.get_opt(&name).await.attempt(format!("read BackupSession {name}"))?;
            existing.extend(found.map(|found| ExistingSession { name, invoker: found.spec.invoker }));
        }
        let Creation::Create(name) = creation(&invoker.id, due, &existing) else { return Ok(()) };
        let session = session(invoker, valid, &name, due);
        match api.create(&PostParams::default(), &session).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            made => return made.attempt(format!("create BackupSession {name}")).map(drop),
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
        api_version: format!("{GROUP}/v1beta1"),
        kind: invoker.id.kind.to_string(),
        name: invoker.id.name.clone(),
        uid: invoker.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(false),
    }]);
    session
}
