//! What the work on a volume does outside: the repository and the mover. Tests put their own in place.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use lifeboat_cluster::ApiError;
use lifeboat_mover::task::{RepositoryAccess, unreadable};
use lifeboat_plan::pod_volumes::status::Snapshot;
use lifeboat_transfer::movers::{Assignment, Ended, Watcher};
use lifeboat_transfer::repositories::{AccessSource, RepositoryRecords, of_task};
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::locations;
use crate::repositories::{self, Keys, LocationRepositories, RepositoryKey, RepositoryProblem};

/// How long storage may take to drop a few files.
const DROPPING: Duration = Duration::from_secs(30);

/// A repository, as a mover is told of it.
#[derive(Clone)]
pub(crate) struct Reach {
    pub(crate) identifier: String,
    pub(crate) task: RepositoryAccess,
    pub(crate) keys: Arc<dyn Keys>,
    /// The cluster's UID, for locks.
    pub(crate) cluster: String,
}

/// Why a repository cannot be used, and whether that may pass by itself.
pub(crate) struct Unusable {
    pub(crate) words: String,
    pub(crate) may_pass: bool,
}

/// A snapshot that is in the repository.
pub(crate) struct Made {
    pub(crate) snapshot: Snapshot,
    pub(crate) end: Option<Timestamp>,
}

#[async_trait]
pub(crate) trait Hands: Send + Sync {
    /// The repository of a key; `make`: where there is none, it is made.
    async fn reach(&self, key: &RepositoryKey, make: bool) -> Result<Reach, Unusable>;
    /// The snapshot that a task made.
    async fn made(&self, key: &RepositoryKey, task: &str) -> Result<Option<Made>, Unusable>;
    async fn forget(&self, key: &RepositoryKey, snapshots: &[String]) -> Result<(), String>;
    /// Removes reports of movers; that it cannot be done is only logged.
    async fn drop_reports(&self, key: &RepositoryKey, reports: &[String]);
    async fn carry_out(
        &self,
        assignment: Assignment,
        watcher: &dyn Watcher,
        cancel: &CancellationToken,
    ) -> Result<Ended, ApiError>;
    async fn clear(&self, task: &str) -> Result<(), ApiError>;
    /// Nobody wants what the mover of this task may still store until its deadline; that this cannot be written down is only
    /// logged.
    async fn give_up(&self, key: &RepositoryKey, task: &str, deadline: Timestamp);
    /// Removes the locks of a mover whose end was reported; that it cannot be done is only logged.
    async fn unlock(&self, key: &RepositoryKey, owner: &str);
}

/// The server's own.
pub(crate) struct ServerHands(pub(crate) Context);

impl ServerHands {
    fn host(&self) -> LocationRepositories {
        LocationRepositories(self.0.clone())
    }
}

#[async_trait]
impl Hands for ServerHands {
    async fn reach(&self, key: &RepositoryKey, make: bool) -> Result<Reach, Unusable> {
        let repositories = &self.0.repositories;
        let access = if make {
            repositories.ensure(&self.host(), key).await?
        } else {
            let access = self.host().access(key).await?;
            repositories.open(&access).await?;
            access
        };
        let cluster = repositories.cluster(&self.0).await.map_err(RepositoryProblem::from)?;
        let keys = repositories::keys(&self.0, key);
        Ok(Reach { identifier: access.identifier, task: access.task, keys, cluster })
    }

    async fn made(&self, key: &RepositoryKey, task: &str) -> Result<Option<Made>, Unusable> {
        let access = self.host().access(key).await?;
        let repository = match self.0.repositories.open(&access).await {
            Ok(repository) => repository,
            Err(problem) if problem.is_missing() => return Ok(None),
            Err(problem) => return Err(problem.into()),
        };
        let found = of_task(&repository, task).await.map_err(RepositoryProblem::from)?;
        if found.is_some() {
            self.host().set_emptied(key, false).await.map_err(RepositoryProblem::from)?;
        }
        Ok(found.map(|(id, snapshot)| {
            let counts = snapshot.summary.as_ref().map(|summary| summary.counts).unwrap_or_default();
            Made {
                snapshot: Snapshot {
                    id: id.to_string(),
                    bytes: counts.total_bytes_processed,
                    bytes_added: counts.data_added,
                    unreadable: unreadable(&snapshot.tags),
                    ..Snapshot::default()
                },
                end: snapshot.summary.map(|summary| summary.backup_end.timestamp()),
            }
        }))
    }

    async fn forget(&self, key: &RepositoryKey, snapshots: &[String]) -> Result<(), String> {
        let forgotten = self.0.repositories.forget(&self.host(), key, snapshots).await;
        forgotten.map_err(|problem| problem.chain())
    }

    async fn drop_reports(&self, key: &RepositoryKey, reports: &[String]) {
        let location = key.storage();
        let dropping = async {
            let location = locations::open(&self.0, location).await.map_err(|error| error.chain())?;
            location.store.delete(reports).await.map_err(|error| error.to_string())
        };
        match tokio::time::timeout(DROPPING, dropping).await {
            Ok(Ok(())) => {}
            Ok(Err(words)) => tracing::warn!(location, words, "reports of movers may be left behind"),
            Err(_elapsed) => tracing::warn!(location, "storage did not answer: reports may be left behind"),
        }
    }

    async fn carry_out(
        &self,
        assignment: Assignment,
        watcher: &dyn Watcher,
        cancel: &CancellationToken,
    ) -> Result<Ended, ApiError> {
        self.0.movers.carry_out(assignment, watcher, cancel).await
    }

    async fn clear(&self, task: &str) -> Result<(), ApiError> {
        self.0.movers.clear(task).await
    }

    async fn give_up(&self, key: &RepositoryKey, task: &str, deadline: Timestamp) {
        self.0.repositories.give_up(&self.host(), key, task, deadline).await;
    }

    async fn unlock(&self, key: &RepositoryKey, owner: &str) {
        self.0.repositories.unlock(&self.host(), key, owner).await;
    }
}

impl From<RepositoryProblem> for Unusable {
    fn from(problem: RepositoryProblem) -> Self {
        Self { words: problem.chain(), may_pass: problem.may_pass() }
    }
}
