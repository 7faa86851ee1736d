//! Implements `RepositoryHost` for Stash's repositories: reads the current Repository and its Secret, and records on
//! the Repository what has to be done later. Called for every mover and every inspection.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use lifeboat_api::common::TaskId;
use lifeboat_api::stash::Repository;
use lifeboat_cluster::{ApiError, Attempt};
use lifeboat_mover::task::REPOSITORY_MOUNT;
use lifeboat_plan::install::policies::REPOSITORY;
use lifeboat_plan::stash::backend::{self, BackendAccess, BackendProblem, BackendStorage, OpenedBy};
use lifeboat_plan::stash::repository::status::{self, Observed};
use lifeboat_plan::stash::state::conditions::ConditionType;
use lifeboat_plan::transfer::repository_notes::{EMPTIED, give_up, note_dead};
use lifeboat_repository::keys::Cost;
use lifeboat_repository::repository::{Identity, Options};
use lifeboat_transfer::repositories::{
    Access, AccessSource, Passwords, RepositoryKey, RepositoryProblem, RepositoryRecords, ServerOpening,
    TenantRepository, TenantStorage, storage_message,
};
use serde_json::json;

use super::object;
use crate::context::Context;
use crate::repository_key::{directory_of, key_of, parts_of};
use crate::storage_config::{bucket, rest};

/// How long it may take until requests can be sent to the storage.
const OPENING: Duration = Duration::from_secs(30);

/// The most files of a kind that the server lists in a repository (packs of 60 TiB), and the most bytes of
/// snapshots that it loads at once (about 100,000 snapshots).
const MOST_LISTED: usize = 4_000_000;
const MOST_SNAPSHOT_BYTES: usize = 64 * 1024 * 1024;

/// The most expensive key that the server tries: 128 MiB and some seconds. restic's keys need 60 MB at most,
/// and half a second on the machine that made them.
const COSTLIEST_KEY: Cost = Cost { n: 1 << 17, r: 8, p: 32 };

/// The repositories of Repository objects, whose records are in these objects.
pub(crate) struct TenantRepositories(pub(crate) Context);

/// A Repository, and the access to its storage.
pub(super) struct RepositoryAccess {
    pub(super) backend: BackendAccess,
    pub(super) access: Access,
}

/// Why a Repository cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoAccess {
    #[error(
        "Secret '{name}' does not exist in namespace '{namespace}': create it with RESTIC_PASSWORD and the keys of the storage"
    )]
    NoSecret { namespace: String, name: String },
    #[error(transparent)]
    Backend(#[from] BackendProblem),
    #[error("{0}")]
    Storage(String),
    #[error("the storage did not answer within {} seconds", OPENING.as_secs())]
    NoAnswer,
    /// The admission policy for Repositories is not in force; the refusal has the reason.
    #[error("{0}")]
    Unchecked(String),
    #[error(transparent)]
    Api(#[from] ApiError),
}

impl From<NoAccess> for RepositoryProblem {
    fn from(problem: NoAccess) -> Self {
        match problem {
            NoAccess::Api(error) => Self::Api(error),
            // The Secret may be about to be replaced, and the policies to be restored.
            NoAccess::NoSecret { .. } | NoAccess::NoAnswer | NoAccess::Unchecked(_) => {
                Self::Storage(problem.to_string())
            }
            other => Self::Unusable(other.to_string()),
        }
    }
}

/// The access to a Repository, from its current Secret.
pub(super) async fn access_of(
    context: &Context,
    repository: &Repository,
) -> Result<RepositoryAccess, NoAccess> {
    let (namespace, name) = object::parts(repository);
    access_to(context, repository, key_of(namespace, name)).await
}

/// The access to the repository of a key: that of the Repository, or one in its directories.
pub(super) async fn access_to(
    context: &Context,
    repository: &Repository,
    key: RepositoryKey,
) -> Result<RepositoryAccess, NoAccess> {
    checked(context, repository).await?;
    let (namespace, _) = object::parts(repository);
    let secret_name = &repository.spec.backend.storage_secret_name;
    let secrets: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
    let secret =
        secrets.get_opt(secret_name).await.attempt(format!("read Secret {namespace}/{secret_name}"))?;
    let Some(secret) = secret else {
        return Err(NoAccess::NoSecret { namespace: namespace.to_owned(), name: secret_name.clone() });
    };
    let mut backend = backend::access(&repository.spec.backend, &secret.data.unwrap_or_default())?;
    if let Some(directory) = directory_of(&key) {
        backend = backend.below(&directory);
    }
    let storage = storage(&backend).map_err(|error| NoAccess::Storage(storage_message(&error)))?;
    let opening = match backend.opened_by {
        OpenedBy::Server => {
            // Opening may send a request to Amazon for the region of a bucket.
            let opening = context.stores.open(&storage, backend.connections);
            match tokio::time::timeout(OPENING, opening).await {
                Ok(opened) => opened.map_err(|error| NoAccess::Storage(storage_message(&error)))?,
                Err(_elapsed) => return Err(NoAccess::NoAnswer),
            }
        }
        OpenedBy::Movers(reason) => ServerOpening::MoversOnly(reason.to_string()),
    };
    let passwords = Passwords { to_try: vec![backend.password.clone()], missing: String::new() };
    let repository = TenantRepository { identifier: backend.identifier.clone(), storage, opening };
    let options = options(context).await?;
    let access = Access::of_tenant(key, repository, passwords, options);
    Ok(RepositoryAccess { backend, access })
}

/// Refuses a Repository whose spec may have been written while no admission policy was in force: its Secret
/// could be sent to any address. A Repository whose current spec was inspected before was inspected while the
/// policies were in force, so work on it continues without them.
async fn checked(context: &Context, repository: &Repository) -> Result<(), NoAccess> {
    let seen = repository.status.as_ref().and_then(|status| status.observed_generation);
    if seen.is_some() && seen == repository.metadata.generation {
        return Ok(());
    }
    match context.policies.refusal_of_any_replica(context, REPOSITORY).await? {
        Some(refusal) => Err(NoAccess::Unchecked(refusal)),
        None => Ok(()),
    }
}

/// Options for inspections and small changes in the server, with little memory.
async fn options(context: &Context) -> Result<Options, ApiError> {
    let cluster = context.repositories.cluster(context).await?;
    Ok(Options {
        uploads: 1,
        reads: 2,
        threads: 1,
        temporary: context.settings.temporary.clone(),
        identity: Identity { host: format!("{cluster}/{}", context.identity), ..Identity::of_system() },
        costliest_key: COSTLIEST_KEY,
        most_listed: MOST_LISTED,
        most_snapshot_bytes: MOST_SNAPSHOT_BYTES,
        ..Options::default()
    })
}

/// The storage as crate `store` describes it.
fn storage(backend: &BackendAccess) -> lifeboat_store::Result<TenantStorage> {
    Ok(match &backend.storage {
        BackendStorage::Bucket(found) => TenantStorage::Bucket(bucket(backend, found)),
        BackendStorage::Rest(server) => TenantStorage::Rest(rest(backend, server)?),
        BackendStorage::Volume(volume) => {
            let sub_path = volume.sub_path.as_deref().unwrap_or_default();
            TenantStorage::Directory(PathBuf::from(REPOSITORY_MOUNT).join(sub_path))
        }
    })
}

#[async_trait]
impl AccessSource for TenantRepositories {
    async fn access(&self, key: &RepositoryKey) -> Result<Access, RepositoryProblem> {
        let (namespace, name) = parts_of(key);
        let repository = object::read(&self.0, namespace, name).await?;
        if repository.metadata.deletion_timestamp.is_some() {
            let message = format!("Repository '{name}' in namespace '{namespace}' is being deleted");
            return Err(RepositoryProblem::Unusable(message));
        }
        Ok(access_to(&self.0, &repository, key.clone()).await?.access)
    }
}

#[async_trait]
impl RepositoryRecords for TenantRepositories {
    async fn expect_data(&self, access: &Access) -> Result<(), ApiError> {
        self.set_emptied(&access.key, false).await
    }

    async fn set_state(&self, access: &Access, problem: Option<String>) -> Result<(), ApiError> {
        if directory_of(&access.key).is_some() {
            // The condition is about the Repository itself; sessions report problems of a directory.
            return Ok(());
        }
        let (namespace, name) = parts_of(&access.key);
        let reachable = match problem {
            None => ConditionType::RepositoryReachable.yes(""),
            Some(problem) => ConditionType::RepositoryReachable.no(problem),
        };
        let observed = Observed { conditions: vec![reachable], ..Observed::default() };
        let now = self.0.now();
        object::change_status(&self.0, namespace, name, |repository| {
            status::status(&repository.status.clone().unwrap_or_default(), &observed, now)
        })
        .await
    }

    async fn set_emptied(&self, key: &RepositoryKey, emptied: bool) -> Result<(), ApiError> {
        if directory_of(key).is_some() {
            // The note is about the repository of the Repository itself.
            return Ok(());
        }
        let (namespace, name) = parts_of(key);
        let found = object::api(&self.0, namespace).get_metadata_opt(name).await;
        let Some(found) = found.attempt(format!("read Repository {namespace}/{name}"))? else {
            return Ok(());
        };
        let is_noted =
            found.metadata.annotations.is_some_and(|annotations| annotations.contains_key(EMPTIED));
        if is_noted == emptied {
            return Ok(());
        }
        let since = emptied.then(|| lifeboat_plan::time::seconds(self.0.now()));
        object::annotate(&self.0, namespace, name, json!({"metadata": {"annotations": {EMPTIED: since}}}))
            .await
    }

    async fn note_given_up(
        &self,
        key: &RepositoryKey,
        task: &TaskId,
        deadline: Timestamp,
    ) -> Result<(), ApiError> {
        let (namespace, name) = parts_of(key);
        object::annotate(&self.0, namespace, name, give_up(task, deadline)).await
    }

    async fn note_dead_owner(&self, key: &RepositoryKey, owner: &str) -> Result<(), ApiError> {
        let (namespace, name) = parts_of(key);
        object::annotate(&self.0, namespace, name, note_dead(owner)).await
    }
}
