//! Repositories for invokers and sessions: opened, made where there is none, listed, forgotten from. What is in the backend is compared
//! with the record of the Repository each time.

use lifeboat_api::stash::Repository;
use lifeboat_plan::stash::repository::SnapshotFacts;
use lifeboat_plan::stash::repository::record;
use lifeboat_transfer::repositories::{Access, RepositoryKey, RepositoryProblem};
use serde_json::Value;

use super::host::{Found, TenantRepositories, access_of};
use super::key::parts_of;
use super::{look, object};
use crate::context::Context;

/// A repository that can be used.
pub(crate) struct Ready {
    pub(crate) access: Access,
    /// The ID of the restic repository, from the repository itself.
    pub(crate) id: String,
}

/// Opens the repository of a Repository; where there is none yet, it is made. It is on record afterwards.
pub(crate) async fn ready(context: &Context, key: &RepositoryKey) -> Result<Ready, RepositoryProblem> {
    let (namespace, name) = parts_of(key);
    let repository = object::read(context, namespace, name).await?;
    let Found { backend, access } = access_of(context, &repository).await?;
    let location = record::location(&backend);
    let opened = match look::open(context, &access).await {
        Err(problem) if problem.is_missing() => {
            record::may_create(recorded(&repository).as_ref(), &location)
                .map_err(|problem| unusable(&problem))?;
            Box::pin(context.repositories.ensure(&TenantRepositories(context.clone()), key)).await?;
            look::open(context, &access).await?
        }
        other => other?,
    };
    let id = opened.config().id.clone();
    verified(context, &repository, &location, &id).await?;
    Ok(Ready { access, id })
}

/// Puts on record which restic repository a mover found or made.
#[allow(dead_code, reason = "for repositories that only movers open, which sessions do not use yet")]
pub(crate) async fn put_on_record(
    context: &Context,
    key: &RepositoryKey,
    id: &str,
) -> Result<(), RepositoryProblem> {
    let (namespace, name) = parts_of(key);
    let repository = object::read(context, namespace, name).await?;
    let found = access_of(context, &repository).await?;
    verified(context, &repository, &record::location(&found.backend), id).await
}

/// Compares a repository with the record, and puts it on record where there is none.
pub(super) async fn verified(
    context: &Context,
    repository: &Repository,
    location: &str,
    id: &str,
) -> Result<(), RepositoryProblem> {
    if record::verify(recorded(repository).as_ref(), location, id).map_err(|problem| unusable(&problem))? {
        let (namespace, name) = object::parts(repository);
        object::annotate(context, namespace, name, record::record(id, location)).await?;
    }
    Ok(())
}

pub(super) fn recorded(repository: &Repository) -> Option<record::Recorded> {
    record::recorded(&to_json(repository))
}

pub(super) fn to_json(repository: &Repository) -> Value {
    // An object is plain data, which always has a JSON form.
    serde_json::to_value(repository).unwrap_or_default()
}

fn unusable(problem: &record::RecordProblem) -> RepositoryProblem {
    RepositoryProblem::Unusable(problem.to_string())
}

/// All snapshots of a repository that exists.
#[allow(dead_code, reason = "for restores")]
pub(crate) async fn snapshots(
    context: &Context,
    key: &RepositoryKey,
) -> Result<Vec<SnapshotFacts>, RepositoryProblem> {
    let (namespace, name) = parts_of(key);
    let repository = object::read(context, namespace, name).await?;
    let Found { backend, access } = access_of(context, &repository).await?;
    let looked = look::look(context, &access, false).await?;
    verified(context, &repository, &record::location(&backend), &looked.id).await?;
    Ok(looked.snapshots)
}

/// Removes snapshots; their data goes with the next prune. Those that are gone already are no error.
pub(crate) async fn forget(
    context: &Context,
    key: &RepositoryKey,
    ids: &[String],
) -> Result<(), RepositoryProblem> {
    let host = TenantRepositories(context.clone());
    Box::pin(context.repositories.forget(&host, key, ids)).await
}
