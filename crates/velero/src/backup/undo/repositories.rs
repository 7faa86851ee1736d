//! Repositories into which movers of a backup wrote: forgets snapshots there, within a time limit, and finds by their
//! tag those that no object and no list names any more.

use lifeboat_api::common::BackupUid;
use lifeboat_plan::velero::pod_volumes::backup_tag;
use tokio::time::timeout;

use super::files::STEP_LIMIT;
use super::{Left, Undoing};
use crate::backup::journal::RepositoryEntry;
use crate::context::Context;
use crate::repositories::{self, RepositoryKey, RepositoryProblem};

impl From<RepositoryEntry> for RepositoryKey {
    fn from(entry: RepositoryEntry) -> Self {
        repositories::key(&entry.location, &entry.namespace)
    }
}

impl Undoing<'_> {
    /// Forgets the snapshots that are tagged with the Backup's UID in the repositories that its movers wrote into.
    /// Their objects are gone, or did not name them in time. A UID is never reused, so no other backup has such a
    /// snapshot.
    pub(super) async fn forget_tagged(&self, left: &mut Left) {
        match self.journal.repositories().await {
            Ok((noted, unreadable)) => {
                left.repositories.extend(noted.into_iter().map(RepositoryKey::from));
                for message in unreadable {
                    left.keep(message);
                }
            }
            Err(error) => {
                left.is_worth_a_try = true;
                left.keep(format!("snapshots may be left in repositories: {}", error.chain()));
            }
        }
        for repository in left.repositories.difference(&left.unusable.clone()).cloned().collect::<Vec<_>>() {
            let forgotten = async {
                let (ids, damaged) = of_backup(self.context, &repository, self.uid()).await?;
                forget(self.context, &repository, &ids).await.map(|()| damaged)
            };
            let namespace = repository.name();
            match in_time(&repository, left, forgotten).await {
                Ok(0) => {}
                Ok(damaged) => left.messages.push(format!(
                    "{damaged} damaged snapshots in the repository of namespace {namespace} cannot be read, so it is unknown to which backup they belong"
                )),
                Err(problem) => left.keep(format!(
                    "snapshots with the tag {} may be left in the repository of namespace {namespace}: {problem}",
                    backup_tag(self.uid())
                )),
            }
        }
    }
}

/// Why snapshots are left in a repository.
#[derive(Debug, thiserror::Error)]
pub(super) enum ForgetError {
    #[error("{}", .0.chain())]
    Repository(RepositoryProblem),
    #[error("storage did not answer in time")]
    Slow,
}

/// Runs work on a repository within the time limit. A repository that cannot be used is not tried again.
pub(super) async fn in_time<T>(
    repository: &RepositoryKey,
    left: &mut Left,
    work: impl Future<Output = Result<T, RepositoryProblem>>,
) -> Result<T, ForgetError> {
    let out_of_reach = left.unusable.iter().any(|other| other.storage() == repository.storage());
    let limit = if out_of_reach { STEP_LIMIT / 10 } else { STEP_LIMIT };
    let problem = match timeout(limit, work).await {
        Ok(Ok(done)) => return Ok(done),
        Ok(Err(problem)) => ForgetError::Repository(problem),
        Err(_elapsed) => ForgetError::Slow,
    };
    left.unusable.insert(repository.clone());
    left.is_worth_a_try = true;
    Err(problem)
}

pub(super) async fn forget(
    context: &Context,
    repository: &RepositoryKey,
    ids: &[String],
) -> Result<(), RepositoryProblem> {
    repositories::forget(context, repository, ids).await
}

/// The snapshots tagged with the UID of a Backup, and the number of unreadable snapshots.
async fn of_backup(
    context: &Context,
    repository: &RepositoryKey,
    uid: &BackupUid,
) -> Result<(Vec<String>, usize), RepositoryProblem> {
    if uid.is_empty() {
        return Ok((Vec::new(), 0));
    }
    let access = repositories::access(context, repository).await?;
    let open = match repositories::open(context, &access).await {
        Err(RepositoryProblem::Repository(lifeboat_repository::Error::NoRepository { .. })) => {
            return Ok((Vec::new(), 0));
        }
        other => other?,
    };
    let (tag, loaded) = (backup_tag(uid), open.load_readable_snapshots().await?);
    let own = loaded.found.into_iter().filter(|(_, snapshot)| snapshot.tags.contains(&tag));
    Ok((own.map(|(id, _)| id.to_string()).collect(), loaded.damaged.len()))
}
