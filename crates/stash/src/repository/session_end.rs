//! Records the results of a session in its Repository: status, Snapshot objects, the state in the backend, metrics,
//! and the request for a prune. Called by sessions when all of their members have ended.

use jiff::Timestamp;
use lifeboat_api::common::Time;
use lifeboat_api::stash::{Repository, RepositoryStatus};
use lifeboat_plan::stash::repository::record;
use lifeboat_plan::stash::repository::status::{Observed, integrity};
use lifeboat_plan::stash::state::conditions::{ConditionType, Observation};
use lifeboat_plan::transfer::repository_notes::MAINTAIN_SINCE;
use lifeboat_transfer::repositories::{Access, RepositoryKey, RepositoryProblem};
use serde_json::{Value, json};

use super::host::{RepositoryAccess, access_of};
use super::opened::{to_json, verified};
use super::state::{self, BackendState};
use super::{look, object, shown};
use crate::context::Context;
use crate::looks::Looked;
use crate::repository_key::parts_of;

/// What is known at the end of a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionEnd {
    /// The invoker, as an object.
    pub(crate) invoker: Value,
    pub(crate) hosts: Vec<String>,
    /// The result of an inspection by a mover, if the server cannot open the repository.
    pub(crate) looked: Option<Looked>,
    /// When the session was created, if it succeeded.
    pub(crate) backed_up_at: Option<Timestamp>,
    /// How many snapshots the retention policy removed, if it was applied.
    pub(crate) removed: Option<u64>,
    /// Whether the retention policy requests a prune.
    pub(crate) prune: bool,
}

/// Called when all members of a session have ended, before retention looks into its repository: where only movers open the repository, the
/// mover of that look writes the state.
pub(crate) async fn before_end(
    context: &Context,
    key: &RepositoryKey,
    invoker: &Value,
    hosts: &[String],
) -> Result<(), RepositoryProblem> {
    let (namespace, name) = parts_of(key);
    let repository = object::read(context, namespace, name).await?;
    if !access_of(context, &repository).await?.access.is_opened_by_server() {
        let cluster = context.repositories.cluster(context).await?;
        let state = BackendState::new(&cluster, context.now(), &to_json(&repository), invoker, hosts);
        context.looks.keep(key, state.stored());
    }
    Ok(())
}

/// Records the end of a session, and returns the result of the repository's last check. Fails only if something cannot be
/// recorded that users and later decisions need; other failures are logged.
pub(crate) async fn after_session(
    context: &Context,
    key: &RepositoryKey,
    end: &SessionEnd,
) -> Result<Observation, RepositoryProblem> {
    let (namespace, name) = parts_of(key);
    let repository = object::read(context, namespace, name).await?;
    let RepositoryAccess { backend, access } = access_of(context, &repository).await?;
    let looked = match &end.looked {
        Some(looked) => looked.clone(),
        None => look::look(context, &access, true).await?,
    };
    verified(context, &repository, key, &record::location(&backend), &looked.id).await?;
    let observed =
        Observed { conditions: vec![ConditionType::RepositoryReachable.yes("")], ..Observed::default() };
    let more = |status: &mut RepositoryStatus| note_end(status, end);
    shown::with(context, &repository, &backend, &looked, &observed, more).await?;
    if access.is_opened_by_server()
        && let Err(problem) = write_state(context, &repository, &access, end).await
    {
        let message = problem.chain();
        tracing::warn!(namespace, repository = name, message, "the state in the backend was not written");
    }
    if end.prune {
        let since = lifeboat_plan::time::seconds(context.now());
        let patch = json!({"metadata": {"annotations": {MAINTAIN_SINCE: since}}});
        object::annotate(context, namespace, name, patch).await?;
    }
    Ok(integrity(&repository.status.unwrap_or_default()))
}

fn note_end(status: &mut RepositoryStatus, end: &SessionEnd) {
    let last = status.last_backup_time.take().map(|time| time.0).into_iter().chain(end.backed_up_at).max();
    status.last_backup_time = last.map(Time);
    if let Some(removed) = end.removed {
        status.snapshots_removed_on_last_cleanup = i64::try_from(removed).ok();
    }
}

async fn write_state(
    context: &Context,
    repository: &Repository,
    access: &Access,
    end: &SessionEnd,
) -> Result<(), RepositoryProblem> {
    let opened = context.repositories.open(access).await?;
    let cluster = context.repositories.cluster(context).await?;
    let state = BackendState::new(&cluster, context.now(), &to_json(repository), &end.invoker, &end.hosts);
    state::write(&opened, &state).await?;
    Ok(())
}
