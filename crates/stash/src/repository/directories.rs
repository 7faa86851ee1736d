//! The directories of a Repository: gives each host of a Restic its directory, opens or creates the repository in it, and records
//! both in the Repository before anything is stored. [`repo_dirs`](lifeboat_plan::stash::repo_dirs) decides. What is in a
//! directory that is not on record decides first: after a Repository was lost, its record comes back from the snapshots' tags.

use std::collections::BTreeSet;

use jiff::Timestamp;
use lifeboat_api::common::GoDuration;
use lifeboat_api::stash::{BackupRepo, Repository, RepositoryStatus, Restic};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::stash::repo_dirs::{
    Choice, DirOwner, RepoDir, choose, new_entry, note_backup, owners, rebuilt,
};
use lifeboat_plan::stash::reservation::RepositoryName;
use lifeboat_transfer::repositories::{RepositoryKey, RepositoryProblem};

use super::host::access_to;
use super::{look, object, opened};
use crate::context::Context;
use crate::repository_key::directory_key;

/// How often a directory is chosen anew, because others changed the record, or it holds data of another workload.
const TRIES: u32 = 8;

/// Why a host gets no directory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoDirectory {
    /// Another object has it; the message for users.
    #[error("{0}")]
    Taken(String),
    #[error(transparent)]
    Repository(#[from] RepositoryProblem),
}

impl From<ApiError> for NoDirectory {
    fn from(error: ApiError) -> Self {
        Self::Repository(error.into())
    }
}

/// The directory of a host, on record.
pub(crate) async fn allot(
    context: &Context,
    repository: &RepositoryName,
    owner: &DirOwner,
) -> Result<(RepoDir, RepositoryKey), NoDirectory> {
    let RepositoryName { namespace, name } = repository;
    // Sessions of this server that need new directories write the record one after the other.
    let mut turn = None;
    for _ in 0..TRIES {
        let found = object::read(context, namespace, name).await?;
        let status = found.status.clone().unwrap_or_default();
        let existing = existing(context, owners(&status.backup_repos, owner)).await?;
        let directory = match choose(&status.backup_repos, owner, &existing) {
            Choice::Recorded(directory) => {
                let key = directory_key(namespace, name, &directory);
                return Ok((directory, key));
            }
            Choice::Refused(message) => return Err(NoDirectory::Taken(message)),
            Choice::New(_) if turn.is_none() => {
                turn =
                    Some(context.targets.take(format!("directories of Repository {namespace}/{name}")).await);
                continue;
            }
            Choice::New(directory) => directory,
        };
        let held =
            Box::pin(held(context, &found, &directory_key(namespace, name, &directory), &directory)).await?;
        let entry = held.unwrap_or_else(|| new_entry(owner, &directory));
        let mut status = status;
        status.backup_repos.push(entry);
        match object::write_status(context, &found, &status).await {
            // The next round finds what was written, by this server or by another one.
            Ok(_) => {}
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(NoDirectory::Taken(format!(
        "the directories of Repository {namespace}/{name} are changed by others all the time; the next backup tries again"
    )))
}

/// The Restics that exist, of those on record.
async fn existing(
    context: &Context,
    recorded: BTreeSet<(String, String)>,
) -> Result<BTreeSet<(String, String)>, ApiError> {
    let mut found = BTreeSet::new();
    for (namespace, name) in recorded {
        let api = objects::namespaced(&context.client, &namespace, &objects::resource_of::<Restic>());
        let restic = api.get_metadata_opt(&name).await.attempt(format!("read Restic {namespace}/{name}"))?;
        if restic.is_some_and(|restic| restic.metadata.deletion_timestamp.is_none()) {
            found.insert((namespace, name));
        }
    }
    Ok(found)
}

/// What the tags of the snapshots in a directory say; None if there is no repository, or no snapshot with tags.
async fn held(
    context: &Context,
    repository: &Repository,
    key: &RepositoryKey,
    directory: &RepoDir,
) -> Result<Option<BackupRepo>, RepositoryProblem> {
    let access = access_to(context, repository, key.clone()).await?.access;
    match Box::pin(look::look(context, &access, false)).await {
        Ok(looked) => Ok(rebuilt(directory, &looked.snapshots)),
        Err(problem) if problem.is_missing() => Ok(None),
        Err(problem) => Err(opened::with_secret(problem, repository)),
    }
}

/// A backup of a host that succeeded.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) directory: RepoDir,
    pub(crate) took: Option<GoDuration>,
}

/// Records backups in the status of a Repository. `started`: when their session was created.
pub(crate) async fn note(
    context: &Context,
    repository: &RepositoryName,
    restic: &str,
    started: Timestamp,
    stored: &[Stored],
) -> Result<(), ApiError> {
    let noted = |repository: &Repository| {
        let mut status: RepositoryStatus = repository.status.clone().unwrap_or_default();
        for one in stored {
            note_backup(&mut status.backup_repos, &one.directory, restic, started, one.took);
        }
        status
    };
    object::change_status(context, &repository.namespace, &repository.name, noted).await
}
