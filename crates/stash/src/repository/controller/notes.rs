//! Processes the notes on a Repository: locks of dead movers that could not be removed when the movers died, and
//! snapshots that movers stored after they were given up.

use kube::api::ListParams;
use lifeboat_api::common::TaskId;
use lifeboat_api::stash::{BackupSession, Repository};
use lifeboat_cluster::{ApiError, Attempt};
use lifeboat_mover::task::UID_TAG;
use lifeboat_plan::stash::repository::SnapshotFacts;
use lifeboat_plan::stash::repository::fate::{fate, is_listed};
use lifeboat_plan::transfer::repository_notes::{TaskFate, dead_owners, given_up, looked_for, unlocked};
use lifeboat_transfer::repositories::{RepositoryKey, RepositoryProblem};
use serde_json::Value;

use super::super::host::access_of;
use super::super::opened::{forget, snapshots, to_json};
use super::super::{TenantRepositories, object};
use crate::context::Context;
use crate::repository_key::keys_of;

/// Whether there are notes to process.
pub(super) fn has_any(repository: &Repository) -> bool {
    let value = to_json(repository);
    !dead_owners(&value).is_empty() || !given_up(&value, |_| TaskFate::Unknown).is_nothing()
}

/// Processes the notes. False if some of them have to be processed again later.
pub(super) async fn work_off(context: &Context, repository: &Repository) -> Result<bool, ApiError> {
    let value = to_json(repository);
    let is_unlocked = remove_locks(context, repository, &value).await?;
    let is_settled = Box::pin(forget_late(context, repository, &value)).await?;
    Ok(is_unlocked && is_settled)
}

async fn remove_locks(context: &Context, repository: &Repository, value: &Value) -> Result<bool, ApiError> {
    let owners = dead_owners(value);
    if owners.is_empty() {
        return Ok(true);
    }
    let (namespace, name) = object::parts(repository);
    match remove_from_all(context, repository, &owners).await {
        Ok(()) => object::annotate(context, namespace, name, unlocked(&owners)).await.map(|()| true),
        Err(RepositoryProblem::Api(error)) => Err(error),
        // The task of the next mover lists these owners, and the mover removes their locks.
        Err(RepositoryProblem::MoversOnly(_)) => Ok(true),
        Err(problem) => {
            let message = problem.chain();
            tracing::warn!(namespace, repository = name, message, "locks of dead movers are left for now");
            Ok(false)
        }
    }
}

/// Removes the locks of these owners from the repository and from those in its directories, because the note
/// does not record which of them is locked.
async fn remove_from_all(
    context: &Context,
    repository: &Repository,
    owners: &[String],
) -> Result<(), RepositoryProblem> {
    let host = TenantRepositories(context.clone());
    for key in keys_of(repository) {
        match context.repositories.remove_locks(&host, &key, owners).await {
            Err(problem) if problem.is_missing() => {}
            removed => removed?,
        }
    }
    Ok(())
}

async fn forget_late(context: &Context, repository: &Repository, value: &Value) -> Result<bool, ApiError> {
    if given_up(value, |_| TaskFate::Unknown).is_nothing() {
        return Ok(true);
    }
    let sessions = sessions(context).await?;
    let (found, looked) = (given_up(value, |task| fate(task, &sessions)), context.now());
    let (namespace, name) = object::parts(repository);
    let forgotten = async {
        if found.unwanted.is_empty() {
            return Ok(());
        }
        for key in keys_of(repository) {
            let Some(stored) = Box::pin(stored(context, repository, &key)).await? else { continue };
            let late = stored.iter().filter(|snapshot| is_late(snapshot, &found.unwanted, &sessions));
            let late: Vec<String> = late.map(|snapshot| snapshot.id.clone()).collect();
            if !late.is_empty() {
                Box::pin(forget(context, &key, &late)).await?;
            }
        }
        Ok(())
    };
    match Box::pin(forgotten).await {
        Ok(()) => {}
        Err(RepositoryProblem::Api(error)) => return Err(error),
        Err(problem) => {
            let message = problem.chain();
            tracing::warn!(namespace, repository = name, message, "a late snapshot may be left for now");
            return Ok(false);
        }
    }
    if let Some(patch) = looked_for(value, &found, looked) {
        object::annotate(context, namespace, name, patch).await?;
    }
    Ok(false)
}

/// The snapshots of a repository, or of one in its directories. If only movers open it, those of the last
/// inspection: no mover is started only to find a late snapshot.
async fn stored(
    context: &Context,
    repository: &Repository,
    key: &RepositoryKey,
) -> Result<Option<Vec<SnapshotFacts>>, RepositoryProblem> {
    if access_of(context, repository).await?.access.is_opened_by_server() {
        return match Box::pin(snapshots(context, key)).await {
            // A Repository whose directories alone are used has no repository of its own.
            Err(problem) if problem.is_missing() && keys_of(repository).len() > 1 => Ok(None),
            listed => listed.map(Some),
        };
    }
    Ok(context.looks.known(key).map(|looked| looked.snapshots))
}

/// All BackupSessions of the namespaces that this server may serve: a repository may be used from several.
async fn sessions(context: &Context) -> Result<Vec<BackupSession>, ApiError> {
    let resource = lifeboat_cluster::objects::resource_of::<BackupSession>();
    let mut all = Vec::new();
    for api in context.served.scope().apis(&context.client, &resource) {
        let listed = api.list(&ListParams::default()).await.attempt("list BackupSessions")?;
        all.extend(listed.items.iter().filter_map(|object| lifeboat_cluster::objects::typed(object).ok()));
    }
    Ok(all)
}

/// Whether a snapshot was stored by one of these tasks and no session lists it.
fn is_late(snapshot: &SnapshotFacts, tasks: &[TaskId], sessions: &[BackupSession]) -> bool {
    let of_task = |part: &str| {
        let rest = |task: &TaskId| part.strip_prefix(task.as_str());
        tasks.iter().filter_map(rest).any(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let mut parts = snapshot.tags.iter().filter_map(|tag| tag.strip_prefix(UID_TAG));
    parts.any(of_task) && !is_listed(&snapshot.id, sessions)
}
