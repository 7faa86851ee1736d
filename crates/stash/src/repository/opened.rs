//! Opens repositories for invokers and sessions, creates them, lists and forgets snapshots. Each time, the repository
//! in the backend is compared with the one that the Repository object has recorded.

use std::time::Duration;

use lifeboat_api::stash::Repository;
use lifeboat_plan::stash::backend::PASSWORD;
use lifeboat_plan::stash::repo_dirs::RepoDir;
use lifeboat_plan::stash::repository::SnapshotFacts;
use lifeboat_plan::stash::repository::record;
use lifeboat_repository::forget::forget_named;
use lifeboat_repository::id::SnapshotId;
use lifeboat_repository::lock::LockOptions;
use lifeboat_repository::repository::Repository as OpenRepository;
use lifeboat_transfer::repositories::{Access, RepositoryKey, RepositoryProblem, RepositoryRecords};
use serde_json::Value;

use super::host::{RepositoryAccess, TenantRepositories, access_to};
use super::{by_mover, look, object};
use crate::context::Context;
use crate::repository_key::{directory_of, parts_of};

/// How long the server waits for a lock before it reports who holds it.
const LOCK_WAIT: Duration = Duration::from_mins(1);

/// A repository that can be used.
pub(crate) struct Ready {
    pub(crate) access: Access,
    /// The ID of the restic repository: from the repository itself or, if only movers open it, from the record.
    pub(crate) id: String,
}

/// Opens the repository of a Repository object, creates it if it does not exist, and records its ID.
pub(crate) async fn ready(context: &Context, key: &RepositoryKey) -> Result<Ready, RepositoryProblem> {
    let (namespace, name) = parts_of(key);
    let repository = object::read(context, namespace, name).await?;
    if repository.metadata.deletion_timestamp.is_some() {
        return Err(being_deleted(namespace, name));
    }
    let found = access_to(context, &repository, key.clone()).await?;
    if !found.access.is_opened_by_server() {
        let id = Box::pin(by_mover::open_or_make(context, &repository, &found)).await?;
        return Ok(Ready { access: found.access, id });
    }
    let RepositoryAccess { backend, access } = found;
    let location = record::location(&backend);
    let opened = match look::open(context, &access).await {
        Err(problem) if problem.is_missing() => {
            record::may_create(recorded(&repository, key, &location).as_ref(), &location)
                .map_err(|problem| unusable(&problem))?;
            let host = TenantRepositories(context.clone());
            let making = Box::pin(context.repositories.ensure(&host, key));
            let made = context.openings.run(namespace, making).await;
            made.map_err(|slow| RepositoryProblem::Storage(slow.to_string()))??;
            look::open(context, &access).await?
        }
        other => other.map_err(|problem| with_secret(problem, &repository))?,
    };
    let id = opened.config().id.clone();
    verified(context, &repository, key, &location, &id).await?;
    Ok(Ready { access, id })
}

/// A wrong password, with the Secret that has it: a message of the engine names neither.
pub(super) fn with_secret(problem: RepositoryProblem, repository: &Repository) -> RepositoryProblem {
    if !problem.is_password() {
        return problem;
    }
    let (namespace, secret) = (object::parts(repository).0, &repository.spec.backend.storage_secret_name);
    RepositoryProblem::Unusable(format!(
        "{}; the password is key {PASSWORD} of Secret {namespace}/{secret}",
        problem.chain()
    ))
}

pub(super) fn being_deleted(namespace: &str, name: &str) -> RepositoryProblem {
    let message = format!("Repository '{name}' in namespace '{namespace}' is being deleted");
    RepositoryProblem::Unusable(message)
}

/// Records the ID of the restic repository that a mover found or created.
pub(super) async fn put_on_record(
    context: &Context,
    key: &RepositoryKey,
    id: &str,
) -> Result<(), RepositoryProblem> {
    let (namespace, name) = parts_of(key);
    let repository = object::read(context, namespace, name).await?;
    let found = access_to(context, &repository, key.clone()).await?;
    verified(context, &repository, key, &record::location(&found.backend), id).await
}

/// Compares a repository with the record; if there is no record, records the repository's ID.
pub(super) async fn verified(
    context: &Context,
    repository: &Repository,
    key: &RepositoryKey,
    location: &str,
    id: &str,
) -> Result<(), RepositoryProblem> {
    let known = recorded(repository, key, location);
    if !record::verify(known.as_ref(), location, id).map_err(|problem| unusable(&problem))? {
        return Ok(());
    }
    let (namespace, name) = object::parts(repository);
    match directory_of(key) {
        Some(directory) => record_directory(context, namespace, name, &directory, (id, location)).await,
        None => Ok(object::annotate(context, namespace, name, record::record(id, location)).await?),
    }
}

/// Records the repository in a directory, beside those that other sessions record at the same time.
async fn record_directory(
    context: &Context,
    namespace: &str,
    name: &str,
    directory: &RepoDir,
    (id, location): (&str, &str),
) -> Result<(), RepositoryProblem> {
    // Hosts of this server whose repositories are new write the record one after the other.
    let _turn = context.targets.take(format!("repositories in directories of {namespace}/{name}")).await;
    let mut tries = 0;
    loop {
        let repository = object::read(context, namespace, name).await?;
        let value = to_json(&repository);
        let known = record::recorded_in(&value, directory, location);
        if !record::verify(known.as_ref(), location, id).map_err(|problem| unusable(&problem))? {
            return Ok(());
        }
        let patch = record::record_in(&value, directory, id, location);
        match object::merge(context, &repository, patch).await {
            Err(error) if error.is_conflict() && tries < object::TRIES => tries += 1,
            merged => return merged.map(drop).map_err(Into::into),
        }
    }
}

/// The recorded repository of a key. `location`: its place, by which a directory is found on record.
pub(super) fn recorded(
    repository: &Repository,
    key: &RepositoryKey,
    location: &str,
) -> Option<record::Recorded> {
    match directory_of(key) {
        Some(directory) => record::recorded_in(&to_json(repository), &directory, location),
        None => recorded_root(repository),
    }
}

/// The recorded repository of a Repository itself.
pub(super) fn recorded_root(repository: &Repository) -> Option<record::Recorded> {
    record::recorded(&to_json(repository))
}

pub(super) fn to_json(repository: &Repository) -> Value {
    // An object is plain data, which always has a JSON form.
    serde_json::to_value(repository).unwrap_or_default()
}

pub(super) fn unusable(problem: &record::RecordProblem) -> RepositoryProblem {
    RepositoryProblem::Unusable(problem.to_string())
}

/// All snapshots of a repository that exists.
pub(crate) async fn snapshots(
    context: &Context,
    key: &RepositoryKey,
) -> Result<Vec<SnapshotFacts>, RepositoryProblem> {
    let (namespace, name) = parts_of(key);
    let repository = object::read(context, namespace, name).await?;
    let RepositoryAccess { backend, access } = access_to(context, &repository, key.clone()).await?;
    let looked = look::look(context, &access, false).await;
    let looked = looked.map_err(|problem| with_secret(problem, &repository))?;
    verified(context, &repository, key, &record::location(&backend), &looked.id).await?;
    Ok(looked.snapshots)
}

/// Removes snapshots; the next prune removes their data. Snapshots that no longer exist are not an error.
pub(crate) async fn forget(
    context: &Context,
    key: &RepositoryKey,
    ids: &[String],
) -> Result<(), RepositoryProblem> {
    let host = TenantRepositories(context.clone());
    match Box::pin(context.repositories.forget(&host, key, ids)).await {
        Err(RepositoryProblem::MoversOnly(_)) => Box::pin(by_mover::forget(context, key, ids)).await,
        forgotten => forgotten,
    }
}

/// Removes snapshots under a shared lock, from the repository that was opened for this decision, or with a mover if
/// the server cannot open it. `all`: how many snapshots there are.
pub(super) async fn forget_from(
    context: &Context,
    key: &RepositoryKey,
    opened: Option<&OpenRepository>,
    ids: &[String],
    all: usize,
) -> Result<(), RepositoryProblem> {
    if ids.is_empty() {
        return Ok(());
    }
    let Some(opened) = opened else { return Box::pin(by_mover::forget(context, key, ids)).await };
    // Callers pass only IDs that this repository listed.
    let named: Vec<SnapshotId> = ids.iter().filter_map(|id| id.parse().ok()).collect();
    let lock = LockOptions { wait: LOCK_WAIT, ..LockOptions::default() };
    let gone = forget_named(opened, &named, &lock).await?;
    tracing::info!(repository = %key, asked = ids.len(), removed = gone.len(), "snapshots forgotten");
    if !gone.is_empty() && gone.len() == all {
        TenantRepositories(context.clone()).set_emptied(key, true).await?;
    }
    Ok(())
}
