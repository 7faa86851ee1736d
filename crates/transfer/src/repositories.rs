//! Repositories of volume data: opening, forgetting snapshots, removing locks. Takes a repository key and the host
//! that knows how to reach the repository and where its state is recorded; returns open repositories. Called by
//! backups, restores, deletions and maintenance of volume data.

mod access;
mod key;
mod keys;
mod open;
mod problem;
mod records;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt};
use lifeboat_api::common::TaskId;
use lifeboat_cluster::{ApiError, Attempt};
use lifeboat_control::{Core, locked};
use lifeboat_mover::task::UID_TAG;
use lifeboat_repository::files::FileKind;
use lifeboat_repository::forget::forget_named;
use lifeboat_repository::id::SnapshotId;
use lifeboat_repository::lock::{LockOptions, remove_stale_locks};
use lifeboat_repository::repository::Repository;
use lifeboat_repository::snapshots::FoundSnapshot;
use tokio::sync::OnceCell;

pub use access::{Access, Passwords, ServerOpening, Storage, TenantRepository, TenantStorage};
pub use key::RepositoryKey;
pub use keys::{Key, Keys, NoKeys, SourceKeys};
use open::{OpenRepositories, Opened, Slot};
pub use problem::{RepositoryProblem, storage_message};
pub use records::{AccessSource, RepositoryHost, RepositoryRecords};

/// How long the server waits for a lock before it reports who holds it.
const PATIENCE: Duration = Duration::from_mins(1);

/// The open repositories of a server, for all APIs. Clones share them.
#[derive(Clone, Default)]
pub struct Repositories {
    cluster: Arc<OnceCell<String>>,
    opened: Arc<Mutex<OpenRepositories>>,
}

impl Repositories {
    fn slot(&self, key: &RepositoryKey) -> Slot {
        locked(&self.opened).slot(key)
    }

    /// Closes a repository whose record was changed or deleted; the next caller opens it again.
    pub fn close(&self, key: &RepositoryKey) {
        locked(&self.opened).close(key);
    }

    /// Closes all repositories: the next leader changes them.
    pub(crate) fn close_all(&self) {
        *locked(&self.opened) = OpenRepositories::default();
    }

    /// The cluster's UID, which is part of lock owners: the UID of the cluster's oldest namespace or, if that cannot
    /// be read, of Lifeboat's own namespace.
    pub async fn cluster(&self, core: &Core) -> Result<String, ApiError> {
        let uid = self.cluster.get_or_try_init(|| async {
            let api: Api<Namespace> = Api::all(core.client.clone());
            if let Ok(namespace) = api.get("kube-system").await {
                return Ok(namespace.uid().unwrap_or_default());
            }
            let own = &core.namespace;
            let namespace = api.get(own).await.attempt(format!("read Namespace {own}"))?;
            Ok(namespace.uid().unwrap_or_default())
        });
        uid.await.cloned()
    }

    /// Opens the repository for new data and creates it if it does not exist; its record exists afterwards.
    pub async fn ensure(
        &self,
        host: &dyn RepositoryHost,
        key: &RepositoryKey,
    ) -> Result<Access, RepositoryProblem> {
        let access = host.access(key).await?;
        let slot = self.slot(key);
        let mut opened = slot.lock().await;
        // The record may have been deleted since the repository was opened.
        host.expect_data(&access).await?;
        if opened.as_ref().is_some_and(|opened| opened.access.is_same(&access)) {
            return Ok(access);
        }
        let repository = access.open_or_create().await;
        let problem = repository.as_ref().err().map(RepositoryProblem::chain);
        host.set_state(&access, problem).await?;
        *opened = Some(Opened { access: access.clone(), repository: repository? });
        Ok(access)
    }

    /// Opens a repository that exists.
    pub async fn open(&self, access: &Access) -> Result<Repository, RepositoryProblem> {
        let slot = self.slot(&access.key);
        let mut opened = slot.lock().await;
        if let Some(known) = opened.as_ref().filter(|known| known.access.is_same(access)) {
            return Ok(known.repository.clone());
        }
        let repository = access.open().await?;
        *opened = Some(Opened { access: access.clone(), repository: repository.clone() });
        Ok(repository)
    }

    /// Forgets snapshots; the next maintenance removes their data. A snapshot or repository that no longer exists is
    /// not an error.
    pub async fn forget(
        &self,
        host: &dyn RepositoryHost,
        key: &RepositoryKey,
        ids: &[String],
    ) -> Result<(), RepositoryProblem> {
        if ids.is_empty() {
            return Ok(());
        }
        let access = host.access(key).await?;
        let repository = match self.open(&access).await {
            Err(problem) if problem.is_missing() => return Ok(()),
            other => other?,
        };
        let lock = LockOptions { wait: PATIENCE, ..LockOptions::default() };
        let there = repository.list(FileKind::Snapshot).await?;
        let there: Vec<_> = there.into_iter().map(|file| SnapshotId(file.id)).collect();
        let before = there.len();
        // Velero records only the first eight digits of a snapshot's ID.
        let named = there.into_iter().filter(|id| ids.iter().any(|wanted| is_named(*id, wanted)));
        let gone = forget_named(&repository, &named.collect::<Vec<_>>(), &lock).await?;
        tracing::info!(repository = %key, asked = ids.len(), removed = gone.len(), "snapshots forgotten");
        if !gone.is_empty() && gone.len() == before {
            host.set_emptied(key, true).await?;
        }
        Ok(())
    }

    /// Forgets the snapshots of these tasks, if there are any.
    pub async fn forget_tasks(
        &self,
        host: &dyn RepositoryHost,
        key: &RepositoryKey,
        tasks: &[TaskId],
    ) -> Result<(), RepositoryProblem> {
        if tasks.is_empty() {
            return Ok(());
        }
        let access = host.access(key).await?;
        let repository = self.open(&access).await?;
        let found = repository.load_readable_snapshots().await?.found;
        let of_them = |part: &str| tasks.iter().any(|task| is_part(part, task));
        let late = found.into_iter().filter(|(_, snapshot)| parts_of(&snapshot.tags).any(of_them));
        let late: Vec<String> = late.map(|(id, _)| id.to_string()).collect();
        self.forget(host, key, &late).await
    }

    /// Records that the snapshot of a mover that was given up is to be forgotten. A failure to record it is only
    /// logged.
    pub async fn give_up(
        &self,
        host: &dyn RepositoryHost,
        key: &RepositoryKey,
        task: &TaskId,
        deadline: Timestamp,
    ) {
        if let Err(error) = host.note_given_up(key, task, deadline).await {
            let message = error.chain();
            tracing::warn!(repository = %key, %task, message, "a snapshot may be left behind");
        }
    }

    /// Removes the locks of an owner that is known to have ended, so that other processes do not wait for them. If
    /// that fails, the controller of repositories tries again.
    pub async fn unlock(&self, host: &dyn RepositoryHost, key: &RepositoryKey, owner: &str) {
        let owners = [owner.to_owned()];
        let removing = self.remove_locks(host, key, &owners);
        let message = match tokio::time::timeout(PATIENCE, removing).await {
            Ok(Ok(())) => return,
            Ok(Err(problem)) => problem.chain(),
            Err(_elapsed) => "storage did not answer".to_owned(),
        };
        tracing::warn!(repository = %key, owner, message, "locks of a dead mover are left for now");
        if let Err(error) = host.note_dead_owner(key, owner).await {
            let message = error.chain();
            tracing::warn!(repository = %key, owner, message, "a lock may be left behind");
        }
    }

    pub async fn remove_locks(
        &self,
        source: &dyn RepositoryHost,
        key: &RepositoryKey,
        owners: &[String],
    ) -> Result<(), RepositoryProblem> {
        let access = source.access(key).await?;
        let repository = match self.open(&access).await {
            Err(problem) if problem.is_missing() => return Ok(()),
            other => other?,
        };
        let locks = remove_stale_locks(&repository, owners).await?.locks;
        tracing::info!(repository = %key, ?owners, locks, "locks of dead movers removed");
        Ok(())
    }
}

/// The snapshots that a task created, with the UIDs of their parts: the proof that these parts are done. If a part has two
/// snapshots, the first counts.
pub async fn of_task(
    repository: &Repository,
    task: &TaskId,
) -> Result<BTreeMap<String, FoundSnapshot>, lifeboat_repository::Error> {
    let mut parts = BTreeMap::new();
    for found in repository.load_readable_snapshots().await?.found {
        let part = parts_of(&found.1.tags).find(|part| is_part(part, task)).map(str::to_owned);
        if let Some(part) = part {
            parts.entry(part).or_insert(found);
        }
    }
    Ok(parts)
}

/// The parts that these tags name.
fn parts_of(tags: &[String]) -> impl Iterator<Item = &str> {
    tags.iter().filter_map(|tag| tag.strip_prefix(UID_TAG))
}

/// Whether a UID is that of a task or of one of its parts, `<task>.<number>`.
fn is_part(uid: &str, task: &TaskId) -> bool {
    uid.strip_prefix(task.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Whether a text identifies the snapshot: its full ID, or at least the first eight digits.
fn is_named(id: SnapshotId, wanted: &str) -> bool {
    wanted.len() >= 8 && id.to_string().starts_with(wanted)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::the_task("u.0.ab-1", true)]
    #[case::a_part("u.0.ab-1.7", true)]
    #[case::another_attempt("u.0.ab-12", false)]
    #[case::another_attempts_part("u.0.ab-12.7", false)]
    #[case::another_member("u.0", false)]
    fn a_part_is_known_by_the_uid_of_its_task(#[case] uid: &str, #[case] expected: bool) {
        assert_eq!(is_part(uid, &TaskId::new("u.0.ab-1")), expected);
    }
}
