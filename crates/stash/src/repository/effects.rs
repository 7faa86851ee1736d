//! The effects of transfers of Stash's sessions: those of any API and, for repositories that only movers open,
//! inspections by movers instead of reads by the server. In such a repository the result of a mover names the
//! snapshots that it stored; if a mover left no result, another mover searches for its snapshots. The inspection at
//! the end of the session proves that the snapshots exist.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use jiff::Timestamp;
use lifeboat_api::common::TaskId;
use lifeboat_cluster::ApiError;
use lifeboat_control::locked;
use lifeboat_mover::report::{BackedUp, Outcome, TaskResult};
use lifeboat_mover::task::{RepositoryAccess, TaskWork, UID_TAG, unreadable};
use lifeboat_plan::stash::repository::SnapshotFacts;
use lifeboat_plan::transfer::attempts::Snapshot;
use lifeboat_plan::transfer::movers::MoverPlace;
use lifeboat_plan::transfer::repository_notes::{dead_owners, unlocked};
use lifeboat_transfer::attempts::{Effects, Reach, Stored, Unusable, files_of};
use lifeboat_transfer::movers::{MoverEnd, MoverObserver, MoverRequest};
use lifeboat_transfer::repositories::{
    AccessSource, Key, Keys, RepositoryKey, RepositoryProblem, RepositoryRecords, SourceKeys,
};
use tokio_util::sync::CancellationToken;

use super::host::TenantRepositories;
use super::opened::to_json;
use super::{by_mover, object};
use crate::context::Context;
use crate::repository_key::{key_of_text, parts_of};

/// The credentials of a mover that reads a node's directory. It runs in Lifeboat's namespace, so it may open
/// the storage only as the server does: with the keys of the Secret, even if these were removed before its
/// turn, and at no address of its machine.
struct GuardedKeys {
    host: TenantRepositories,
    key: RepositoryKey,
}

#[async_trait]
impl Keys for GuardedKeys {
    async fn read(&self) -> Result<Key, RepositoryProblem> {
        let access = self.host.access(&self.key).await?;
        // Storage that the server cannot open is opened with the identity of a pod; this pod has the identity
        // of another namespace.
        access.store()?;
        let repository = RepositoryAccess { guarded: true, ..access.task };
        Ok(Key { repository: Some(repository), files: access.files })
    }
}

/// The effects of one session.
pub(crate) struct TenantEffects {
    context: Context,
    inner: Arc<dyn Effects>,
    /// Whether only movers open a repository.
    by_movers: Mutex<BTreeMap<RepositoryKey, bool>>,
    /// The snapshots that movers reported, by task.
    reported: Mutex<BTreeMap<TaskId, Vec<Stored>>>,
}

impl TenantEffects {
    pub(crate) fn new(context: Context, inner: Arc<dyn Effects>) -> Self {
        Self { context, inner, by_movers: Mutex::default(), reported: Mutex::default() }
    }

    fn host(&self) -> TenantRepositories {
        TenantRepositories(self.context.clone())
    }

    /// Whether only movers open the repository. False if its access cannot be determined: the caller then tries to
    /// open it and gets the reason.
    async fn is_opened_by_movers(&self, key: &RepositoryKey) -> bool {
        if let Some(known) = locked(&self.by_movers).get(key) {
            return *known;
        }
        let Ok(access) = self.host().access(key).await else { return false };
        let is_by_movers = !access.is_opened_by_server();
        locked(&self.by_movers).insert(key.clone(), is_by_movers);
        is_by_movers
    }

    async fn reach_by_mover(&self, key: &RepositoryKey, make: bool) -> Result<Reach, RepositoryProblem> {
        let host = self.host();
        let access = host.access(key).await?;
        if make {
            host.expect_data(&access).await?;
        }
        let cluster = self.context.repositories.cluster(&self.context).await?;
        let keys = Arc::new(SourceKeys { source: Arc::new(host), key: key.clone() });
        Ok(Reach { identifier: access.identifier, task: access.task, keys, cluster })
    }

    /// The owners of locks whose movers are dead, from the notes on the Repository.
    async fn noted_owners(&self, key: &RepositoryKey) -> Vec<String> {
        let (namespace, name) = parts_of(key);
        let repository = object::read(&self.context, namespace, name).await.ok();
        repository.map(|repository| dead_owners(&to_json(&repository))).unwrap_or_default()
    }

    async fn carry_out_on(
        &self,
        key: &RepositoryKey,
        mut request: MoverRequest,
        observer: &dyn MoverObserver,
        cancel: &CancellationToken,
    ) -> Result<MoverEnd, ApiError> {
        let dead = self.noted_owners(key).await;
        let owners = &mut request.task.lock.dead_owners;
        owners.extend(dead.iter().cloned());
        owners.dedup();
        let stores = request.task.parts.iter().any(|part| matches!(part.work, TaskWork::Backup(_)));
        let task = request.job.task.clone();
        let parts: Vec<String> = request.task.parts.iter().map(|part| part.uid.clone()).collect();
        let ended = self.inner.carry_out(request, observer, cancel).await;
        if stores {
            self.context.looks.changed(key);
        }
        if let Ok(MoverEnd::Reported { result, .. }) = &ended {
            if let Some(stored) = stored_of(result, &parts) {
                locked(&self.reported).insert(task, stored);
            }
            if result.outcome.is_done() && !dead.is_empty() {
                let (namespace, name) = parts_of(key);
                // The mover's task listed these owners, and the mover removed their locks.
                object::annotate(&self.context, namespace, name, unlocked(&dead)).await?;
            }
        }
        ended
    }
}

/// The snapshots that a mover reported; None if the result has no space for all parts.
fn stored_of(result: &TaskResult, parts: &[String]) -> Option<Vec<Stored>> {
    let outcome = |uid: &String| match parts {
        [_] if !matches!(result.outcome, Outcome::Parts(_)) => Some(&result.outcome),
        _ => result.of_part(uid),
    };
    let mut stored = Vec::new();
    for uid in parts {
        match outcome(uid)? {
            Outcome::BackedUp(done) => stored.push(stored_by(uid, done)),
            Outcome::Failed(_) => {}
            _ => return None,
        }
    }
    // A task that failed as a whole may have stored something before.
    let has_failed = matches!(result.outcome, Outcome::Failed(_));
    (!has_failed).then_some(stored)
}

fn stored_by(uid: &str, done: &BackedUp) -> Stored {
    let snapshot = Snapshot {
        id: done.snapshot.clone(),
        bytes: done.bytes,
        bytes_added: done.bytes_added,
        files: files_of(done),
        unreadable: done.unreadable.count,
        ..Snapshot::default()
    };
    Stored { part: uid.to_owned(), snapshot, end: None }
}

/// A snapshot from an inspection, if a part of this task stored it.
fn stored_as(snapshot: &SnapshotFacts, task: &TaskId) -> Option<Stored> {
    let is_part = |uid: &&str| {
        uid.strip_prefix(task.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let part = snapshot.tags.iter().filter_map(|tag| tag.strip_prefix(UID_TAG)).find(is_part)?;
    let found =
        Snapshot { id: snapshot.id.clone(), unreadable: unreadable(&snapshot.tags), ..Snapshot::default() };
    Some(Stored { part: part.to_owned(), snapshot: found, end: None })
}

#[async_trait]
impl Effects for TenantEffects {
    async fn reach(&self, key: &RepositoryKey, make: bool) -> Result<Reach, Unusable> {
        if self.is_opened_by_movers(key).await {
            return Ok(self.reach_by_mover(key, make).await?);
        }
        self.inner.reach(key, make).await
    }

    async fn stored(&self, key: &RepositoryKey, task: &TaskId) -> Result<Vec<Stored>, Unusable> {
        if !self.is_opened_by_movers(key).await {
            return self.inner.stored(key, task).await;
        }
        if let Some(reported) = locked(&self.reported).get(task) {
            return Ok(reported.clone());
        }
        let looked = match Box::pin(by_mover::look_anew(&self.context, key)).await {
            Err(problem) if problem.is_missing() => return Ok(Vec::new()),
            looked => looked?,
        };
        Ok(looked.snapshots.iter().filter_map(|snapshot| stored_as(snapshot, task)).collect())
    }

    async fn forget(&self, key: &RepositoryKey, snapshots: &[String]) -> Result<(), RepositoryProblem> {
        if self.is_opened_by_movers(key).await {
            return Box::pin(by_mover::forget(&self.context, key, snapshots)).await;
        }
        self.inner.forget(key, snapshots).await
    }

    async fn drop_reports(&self, key: &RepositoryKey, group: &str, tasks: &[TaskId]) {
        self.inner.drop_reports(key, group, tasks).await;
    }

    async fn carry_out(
        &self,
        mut request: MoverRequest,
        observer: &dyn MoverObserver,
        cancel: &CancellationToken,
    ) -> Result<MoverEnd, ApiError> {
        let key = key_of_text(&request.job.repository);
        if let Some(key) = &key
            && matches!(request.job.place, MoverPlace::NodeDirectory { .. })
        {
            request.keys = Arc::new(GuardedKeys { host: self.host(), key: key.clone() });
        }
        match key {
            Some(key) if self.is_opened_by_movers(&key).await => {
                self.carry_out_on(&key, request, observer, cancel).await
            }
            _ => self.inner.carry_out(request, observer, cancel).await,
        }
    }

    async fn clear(&self, namespace: &str, task: &TaskId) -> Result<(), ApiError> {
        self.inner.clear(namespace, task).await
    }

    async fn give_up(&self, key: &RepositoryKey, task: &TaskId, deadline: Timestamp) {
        self.inner.give_up(key, task, deadline).await;
    }

    async fn unlock(&self, key: &RepositoryKey, owner: &str) {
        self.inner.unlock(key, owner).await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::World;

    /// A mover may wait hours for its turn; meanwhile a tenant may remove the keys from the Secret.
    #[tokio::test]
    async fn a_mover_in_lifeboats_namespace_uses_the_keys_of_the_secret_and_no_other_identity() {
        let world = World::new().await;
        let key = world.put_repository("r");
        let keys = GuardedKeys { host: TenantRepositories(world.context.clone()), key };
        assert!(keys.read().await.ok().unwrap().repository.unwrap().guarded);
        let none = json!({"data": {"AWS_ACCESS_KEY_ID": null, "AWS_SECRET_ACCESS_KEY": null}});
        world.server.change("/api/v1/namespaces/shop/secrets/keys", &none);
        let problem = keys.read().await.err().unwrap().chain();
        assert!(problem.contains("cloud identity"), "{problem}");
    }
}
