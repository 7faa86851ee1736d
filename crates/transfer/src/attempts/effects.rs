//! What the work on a transfer changes outside the process: repositories and movers. Tests replace it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use lifeboat_api::common::TaskId;
use lifeboat_cluster::ApiError;
use lifeboat_control::Core;
use lifeboat_mover::task::{RepositoryAccess, unreadable};
use lifeboat_plan::transfer::attempts::{FileCounts, Snapshot};
use lifeboat_repository::Retry;
use tokio_util::sync::CancellationToken;

use crate::movers::{MoverEnd, MoverObserver, MoverRequest, Movers};
use crate::repositories::{
    Keys, Repositories, RepositoryHost, RepositoryKey, RepositoryProblem, SourceKeys, of_task,
};

/// How long storage may take to delete a few report files.
const DROPPING: Duration = Duration::from_secs(30);

/// A repository, as the task file of a mover describes it.
#[derive(Clone)]
pub struct Reach {
    /// In the syntax of stock restic.
    pub identifier: String,
    pub task: RepositoryAccess,
    pub keys: Arc<dyn Keys>,
    /// The cluster's UID, for locks.
    pub cluster: String,
}

/// Why a repository cannot be used, and when it may be usable again.
#[derive(Debug)]
pub struct Unusable {
    pub message: String,
    pub retry: Retry,
}

impl From<RepositoryProblem> for Unusable {
    fn from(problem: RepositoryProblem) -> Self {
        Self { message: problem.chain(), retry: problem.retry() }
    }
}

/// A snapshot that is in the repository.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The UID of the part that stored it; the task's where the task has one part.
    pub part: String,
    pub snapshot: Snapshot,
    /// When the mover finished reading the volume.
    pub end: Option<Timestamp>,
}

#[async_trait]
pub trait Effects: Send + Sync {
    /// The access data of a repository. With `make`, a repository that does not exist is created.
    async fn reach(&self, key: &RepositoryKey, make: bool) -> Result<Reach, Unusable>;
    /// The snapshots that a task stored: at most one for each of its parts.
    async fn stored(&self, key: &RepositoryKey, task: &TaskId) -> Result<Vec<Stored>, Unusable>;
    async fn forget(&self, key: &RepositoryKey, snapshots: &[String]) -> Result<(), RepositoryProblem>;
    /// Removes the report files of movers. A failure is only logged.
    async fn drop_reports(&self, key: &RepositoryKey, group: &str, tasks: &[TaskId]);
    async fn carry_out(
        &self,
        request: MoverRequest,
        observer: &dyn MoverObserver,
        cancel: &CancellationToken,
    ) -> Result<MoverEnd, ApiError>;
    /// Removes the mover of a task from a namespace.
    async fn clear(&self, namespace: &str, task: &TaskId) -> Result<(), ApiError>;
    /// Records that a snapshot which the mover of this task may still store, until its deadline, is to be forgotten.
    /// A failure to record it is only logged.
    async fn give_up(&self, key: &RepositoryKey, task: &TaskId, deadline: Timestamp);
    /// Removes the locks of a mover whose container has ended for certain. A failure is only logged.
    async fn unlock(&self, key: &RepositoryKey, owner: &str);
}

/// The report files that movers leave in storage, beside the repository.
#[async_trait]
pub trait Reports: Send + Sync {
    async fn drop_reports(
        &self,
        key: &RepositoryKey,
        group: &str,
        tasks: &[TaskId],
    ) -> Result<(), RepositoryProblem>;
}

/// The effects of the real server.
pub struct ServerEffects {
    pub core: Core,
    pub movers: Movers,
    pub repositories: Repositories,
    pub host: Arc<dyn RepositoryHost>,
    pub reports: Arc<dyn Reports>,
}

#[async_trait]
impl Effects for ServerEffects {
    async fn reach(&self, key: &RepositoryKey, make: bool) -> Result<Reach, Unusable> {
        let access = if make {
            self.repositories.ensure(self.host.as_ref(), key).await?
        } else {
            let access = self.host.access(key).await?;
            self.repositories.open(&access).await?;
            access
        };
        let cluster = self.repositories.cluster(&self.core).await.map_err(RepositoryProblem::from)?;
        let keys = Arc::new(SourceKeys { source: self.host.clone(), key: key.clone() });
        Ok(Reach { identifier: access.identifier, task: access.task, keys, cluster })
    }

    async fn stored(&self, key: &RepositoryKey, task: &TaskId) -> Result<Vec<Stored>, Unusable> {
        let access = self.host.access(key).await?;
        let repository = match self.repositories.open(&access).await {
            Ok(repository) => repository,
            Err(problem) if problem.is_missing() => return Ok(Vec::new()),
            Err(problem) => return Err(problem.into()),
        };
        let found = of_task(&repository, task).await.map_err(RepositoryProblem::from)?;
        if !found.is_empty() {
            self.host.set_emptied(key, false).await.map_err(RepositoryProblem::from)?;
        }
        let stored = found.into_iter().map(|(part, (id, snapshot))| {
            let counted = snapshot.summary.as_ref().map(|summary| summary.counts);
            let counts = counted.unwrap_or_default();
            Stored {
                part,
                snapshot: Snapshot {
                    id: id.to_string(),
                    bytes: counts.total_bytes_processed,
                    bytes_added: counts.data_added,
                    files: counted.map(|counts| FileCounts {
                        total: counts.total_files_processed,
                        new: counts.files_new,
                        modified: counts.files_changed,
                        unmodified: counts.files_unmodified,
                    }),
                    unreadable: unreadable(&snapshot.tags),
                    ..Snapshot::default()
                },
                end: snapshot.summary.map(|summary| summary.backup_end.timestamp()),
            }
        });
        Ok(stored.collect())
    }

    async fn forget(&self, key: &RepositoryKey, snapshots: &[String]) -> Result<(), RepositoryProblem> {
        self.repositories.forget(self.host.as_ref(), key, snapshots).await
    }

    async fn drop_reports(&self, key: &RepositoryKey, group: &str, tasks: &[TaskId]) {
        match tokio::time::timeout(DROPPING, self.reports.drop_reports(key, group, tasks)).await {
            Ok(Ok(())) => {}
            Ok(Err(problem)) => {
                let message = problem.chain();
                tracing::warn!(repository = %key, message, "report files of movers may be left behind");
            }
            Err(_elapsed) => {
                tracing::warn!(repository = %key, "storage did not answer: report files of movers may be left behind");
            }
        }
    }

    async fn carry_out(
        &self,
        request: MoverRequest,
        observer: &dyn MoverObserver,
        cancel: &CancellationToken,
    ) -> Result<MoverEnd, ApiError> {
        self.movers.carry_out(request, observer, cancel).await
    }

    async fn clear(&self, namespace: &str, task: &TaskId) -> Result<(), ApiError> {
        self.movers.clear(namespace, task).await
    }

    async fn give_up(&self, key: &RepositoryKey, task: &TaskId, deadline: Timestamp) {
        self.repositories.give_up(self.host.as_ref(), key, task, deadline).await;
    }

    async fn unlock(&self, key: &RepositoryKey, owner: &str) {
        self.repositories.unlock(self.host.as_ref(), key, owner).await;
    }
}
