//! Repositories of volume data of Velero's API: one per namespace and location, at Velero's restic path
//! (`restic/<namespace>`), with a BackupRepository that shows its state. Called by backups, restores, deletions and
//! maintenance of volume data; what all APIs share is in [`lifeboat_transfer::repositories`].

pub(crate) mod controller;
pub(crate) mod object;

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use lifeboat_api::common::{LocationName, NamespaceName, RepositoryName, StorageName, TaskId};
use lifeboat_cluster::ApiError;
use lifeboat_plan::password::{SECRET, to_try};
use lifeboat_plan::transfer::repository_notes;
use lifeboat_plan::velero::backup_repository::RepositoryId;
use lifeboat_repository::repository::{Identity, Options, Repository};
pub(crate) use lifeboat_transfer::repositories::{Access, RepositoryKey, RepositoryProblem};
use lifeboat_transfer::repositories::{AccessSource, Passwords, RepositoryRecords, Storage};
use secrecy::SecretString;
use serde_json::Value;

use crate::context::Context;
use crate::locations::{self, LocationError, Opening};
use crate::password;

/// The repositories of locations, with their BackupRepositories as records.
pub(crate) struct LocationRepositories(pub(crate) Context);

/// The key of a BackupRepository's repository.
pub(crate) fn key_of(object: &Value) -> RepositoryKey {
    let text = |field: &str| object["spec"][field].as_str().unwrap_or_default();
    key(&LocationName::new(text("backupStorageLocation")), &NamespaceName::new(text("volumeNamespace")))
}

/// The key of the repository of a namespace's volumes in a location.
pub(crate) fn key(location: &LocationName, namespace: &NamespaceName) -> RepositoryKey {
    RepositoryKey::new(StorageName::new(location.as_str()), RepositoryName::new(namespace.as_str()))
}

fn host(context: &Context) -> Arc<LocationRepositories> {
    Arc::new(LocationRepositories(context.clone()))
}

impl From<LocationError> for RepositoryProblem {
    fn from(error: LocationError) -> Self {
        Self::Storage(error.chain())
    }
}

#[async_trait]
impl AccessSource for LocationRepositories {
    async fn access(&self, key: &RepositoryKey) -> Result<Access, RepositoryProblem> {
        let (context, location) = (&self.0, key.storage().as_str());
        let object = locations::find(context, location).await?;
        let secrets = locations::secrets(context, &object).await?;
        let opening = locations::opening(&object, &secrets, &context.plugins)
            .map_err(|problem| RepositoryProblem::Unusable(problem.message))?;
        let Opening::BuiltIn(config) = opening else {
            return Err(RepositoryProblem::Unusable(format!(
                "location '{location}' is served by {}; movers reach only storage that Lifeboat speaks itself: remove the \
                 plugin, or give the volumes a location with provider aws, gcp or azure",
                opening.used()
            )));
        };
        let path = format!("restic/{}", key.name());
        let storage = Storage { config: &config, environment: &context.settings.cloud, path: &path };
        let identity = Identity {
            host: format!("{}/{}", context.repositories.cluster(context).await?, context.identity),
            ..Identity::of_system()
        };
        // The server only reads and makes small changes, with little memory.
        let options = Options {
            uploads: 1,
            reads: 2,
            threads: 1,
            temporary: context.settings.storage.spool_directory.clone(),
            identity,
            ..Options::default()
        };
        Access::new(key.clone(), storage, passwords(context).await?, options).await
    }
}

/// The passwords of the installation.
async fn passwords(context: &Context) -> Result<Passwords, ApiError> {
    let secret = password::read(&context.client, &context.namespace).await?.unwrap_or_default();
    let to_try = to_try(&secret).into_iter().map(|text| SecretString::from(text.to_owned())).collect();
    let missing = format!(
        "Secret {SECRET} holds no repository password; restore it (`lifeboat install --repository-password-file`), or let the \
         server make one"
    );
    Ok(Passwords { to_try, missing })
}

/// The location and namespace that a key was made of.
fn about(key: &RepositoryKey) -> RepositoryId {
    RepositoryId {
        location: LocationName::new(key.storage().as_str()),
        namespace: NamespaceName::new(key.name().as_str()),
    }
}

#[async_trait]
impl RepositoryRecords for LocationRepositories {
    async fn expect_data(&self, access: &Access) -> Result<(), ApiError> {
        let object = object::ensure(&self.0, &about(&access.key), &access.identifier).await?;
        object::set_emptied(&self.0, &object, false).await
    }

    async fn set_state(&self, access: &Access, problem: Option<String>) -> Result<(), ApiError> {
        match object::find(&self.0, &about(&access.key)).await? {
            Some(object) => object::show(&self.0, &object, problem.as_deref()).await,
            None => Ok(()),
        }
    }

    async fn set_emptied(&self, key: &RepositoryKey, emptied: bool) -> Result<(), ApiError> {
        match object::find(&self.0, &about(key)).await? {
            Some(object) => object::set_emptied(&self.0, &object, emptied).await,
            None => Ok(()),
        }
    }

    async fn note_given_up(
        &self,
        key: &RepositoryKey,
        task: &TaskId,
        deadline: Timestamp,
    ) -> Result<(), ApiError> {
        object::note(&self.0, &about(key), repository_notes::give_up(task, deadline)).await
    }

    async fn note_dead_owner(&self, key: &RepositoryKey, owner: &str) -> Result<(), ApiError> {
        object::note(&self.0, &about(key), repository_notes::note_dead(owner)).await
    }
}

pub(crate) async fn access(context: &Context, key: &RepositoryKey) -> Result<Access, RepositoryProblem> {
    host(context).access(key).await
}

/// Opens the repository of a namespace in a location for new data: it is created if it does not exist, and its
/// BackupRepository shows it.
pub(crate) async fn ensure(context: &Context, key: &RepositoryKey) -> Result<Access, RepositoryProblem> {
    Box::pin(context.repositories.ensure(host(context).as_ref(), key)).await
}

/// Opens a repository that exists.
pub(crate) async fn open(context: &Context, access: &Access) -> Result<Repository, RepositoryProblem> {
    context.repositories.open(access).await
}

/// Forgets snapshots in a namespace's repository. Snapshots that are gone already are no error.
pub(crate) async fn forget(
    context: &Context,
    key: &RepositoryKey,
    ids: &[String],
) -> Result<(), RepositoryProblem> {
    Box::pin(context.repositories.forget(host(context).as_ref(), key, ids)).await
}

/// What became of snapshots that were to be forgotten.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Forgotten {
    pub(crate) removed: usize,
    /// Snapshots that exist and are not the backup's.
    pub(crate) foreign: Vec<String>,
}

/// Forgets those of the snapshots whose tags `owns` accepts. Writing tags needs the repository's password.
pub(crate) async fn forget_owned(
    context: &Context,
    key: &RepositoryKey,
    ids: &[String],
    owns: &(dyn Fn(&[String]) -> bool + Sync),
) -> Result<Forgotten, RepositoryProblem> {
    let access = access(context, key).await?;
    let repository = match open(context, &access).await {
        Err(problem) if problem.is_missing() => return Ok(Forgotten::default()),
        other => other?,
    };
    let mut forgotten = Forgotten::default();
    let mut own = Vec::new();
    for (id, snapshot) in repository.load_readable_snapshots().await?.found {
        let id = id.to_string();
        // Velero records only the first eight digits of a snapshot's ID.
        if !ids.iter().any(|wanted| wanted.len() >= 8 && id.starts_with(wanted.as_str())) {
            continue;
        }
        if owns(&snapshot.tags) { own.push(id) } else { forgotten.foreign.push(id) }
    }
    forgotten.removed = own.len();
    forget(context, key, &own).await?;
    Ok(forgotten)
}

/// Forgets the snapshots of these tasks, if there are any.
pub(crate) async fn forget_tasks(
    context: &Context,
    key: &RepositoryKey,
    tasks: &[TaskId],
) -> Result<(), RepositoryProblem> {
    Box::pin(context.repositories.forget_tasks(host(context).as_ref(), key, tasks)).await
}

pub(crate) async fn remove_locks(
    context: &Context,
    key: &RepositoryKey,
    owners: &[String],
) -> Result<(), RepositoryProblem> {
    Box::pin(context.repositories.remove_locks(host(context).as_ref(), key, owners)).await
}
