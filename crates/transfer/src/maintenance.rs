//! One maintenance of a repository, for any API: a mover prunes and checks it. Takes a run whose number is recorded in the
//! object of the repository; gives how it ended, after that is recorded. Called by each API's controller of repositories.
//!
//! The number is recorded before the Job is created and removed with the record of the end; the Job is deleted after that. So
//! a server that continues after a crash finds the same Job, or finds that there is nothing left to do.
//!
//! It is not a part of [`crate::repositories`], which movers use.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ObjectReference;
use lifeboat_api::common::{NamespaceName, TaskId};
use lifeboat_cluster::ApiError;
use lifeboat_control::Core;
use lifeboat_mover::report::{LogLine, Maintained, Outcome, TaskResult};
use lifeboat_mover::task::{Limits, LockTerms, MaintainWork, Task, TaskWork};
use lifeboat_plan::transfer::movers::{MoverJob, MoverPlace, Owner, PodSettings, SCRATCH};
use lifeboat_plan::transfer::repository_notes::{
    MaintenanceRun, dead_owners, is_emptied, is_under_way, unlocked,
};
use lifeboat_repository::files::FileKind;
use lifeboat_repository::repository::Repository;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::movers::{MoverEnd, MoverObserver, MoverRequest, Movers};
use crate::repositories::{
    Access, Repositories, RepositoryHost, RepositoryKey, RepositoryProblem, SourceKeys,
};

/// The lock that the mover waits for may be left behind by a dead process; such a lock is stale after thirty minutes.
const LOCK_WAIT: Duration = Duration::from_mins(35);

/// The object of a repository, in which its maintenance is recorded.
#[async_trait]
pub trait MaintenanceRecord: Send + Sync {
    /// The object as it is now; None if it is gone.
    async fn object(&self) -> Result<Option<Value>, ApiError>;

    /// Opens the repository, if the server can.
    async fn open(&self, access: &Access) -> Result<Repository, RepositoryProblem>;

    /// The settings of the mover's pod. `job` is the Job as it will be created, with the server's own settings.
    async fn pod(&self, job: &MoverJob) -> Result<PodSettings, MaintenanceError> {
        Ok(job.pod.clone())
    }

    /// Merges a patch of annotations into the object, whatever else was changed in it.
    async fn annotate(&self, patch: Value) -> Result<(), ApiError>;

    /// Records the end of a run and removes its number; `end` is None if the end is recorded already. `object` is the object as
    /// it was read just now. An error leads to another call, with the same end, later.
    async fn record_end(
        &self,
        object: &Value,
        run: MaintenanceRun,
        end: Option<&MaintenanceEnd>,
    ) -> Result<(), ApiError>;
}

/// Why a maintenance failed.
#[derive(Debug, thiserror::Error)]
pub enum MaintenanceError {
    /// Not the end of the maintenance: it is tried again.
    #[error("{}", .0.message())]
    Api(#[from] ApiError),
    #[error("{}", .0.chain())]
    Repository(RepositoryProblem),
    /// No pod of a mover can run there: why, and what to do.
    #[error("{0}")]
    Pod(String),
    /// What the mover reported, or how it died.
    #[error("{0}")]
    Mover(String),
    #[error("the mover reported the result of another kind of task; use the server's image for movers")]
    OtherTask,
    #[error("it was cancelled")]
    Cancelled,
}

impl MaintenanceError {
    /// A word from a fixed list, for metrics and logs.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Api(error) => error.category(),
            Self::Repository(problem) => problem.category(),
            Self::Pod(_) => "pod",
            Self::Mover(_) | Self::OtherTask => "mover",
            Self::Cancelled => "cancelled",
        }
    }
}

impl From<RepositoryProblem> for MaintenanceError {
    fn from(problem: RepositoryProblem) -> Self {
        match problem {
            RepositoryProblem::Api(error) => Self::Api(error),
            other => Self::Repository(other),
        }
    }
}

/// How a maintenance ended.
#[derive(Debug)]
pub enum MaintenanceEnd {
    /// It ran to its end; its check may have found problems.
    Done(Maintained),
    Failed(MaintenanceError),
}

impl MaintenanceEnd {
    /// For people: what is wrong, and what to do. None after a run that found nothing wrong.
    pub fn problem(&self) -> Option<String> {
        match self {
            Self::Done(done) if done.problems.count == 0 => None,
            Self::Done(done) => Some(format!(
                "the check found {} problems: {}; see docs/repository.md for repairs",
                done.problems.count,
                done.problems.first.join("; ")
            )),
            Self::Failed(error) => Some(error.to_string()),
        }
    }
}

/// The maintenance of one repository.
pub struct Maintenance<'a> {
    pub core: &'a Core,
    pub movers: &'a Movers,
    pub repositories: &'a Repositories,
    /// Reaches the repositories of its API.
    pub host: Arc<dyn RepositoryHost>,
    pub record: &'a dyn MaintenanceRecord,
    pub key: RepositoryKey,
    /// The object of the repository.
    pub owner: Owner,
    pub reference: ObjectReference,
    /// The namespace of the mover.
    pub namespace: NamespaceName,
}

impl Maintenance<'_> {
    /// Runs a maintenance to its end and records the end. None if nothing ended here: the end was recorded before, or the next
    /// leader continues. An error is an error of the API server: the caller calls again with the same run.
    pub async fn carry_out(&self, run: MaintenanceRun) -> Result<Option<MaintenanceEnd>, ApiError> {
        let task = run.task(&self.owner.uid);
        let Some(object) = self.under_way(&task).await? else { return Ok(None) };
        let end = if run.is_recorded() {
            None
        } else {
            match Box::pin(self.end(&object, &task, run)).await? {
                Some(end) => Some(end),
                None => return Ok(None),
            }
        };
        // The mover's task listed these owners, and the mover removed their locks.
        let dead = dead_owners(&object);
        if matches!(end, Some(MaintenanceEnd::Done(_))) && !dead.is_empty() {
            self.record.annotate(unlocked(&dead)).await?;
        }
        // Others may have written the object, or this end, in the meantime.
        if let Some(object) = self.under_way(&task).await? {
            self.record.record_end(&object, run, end.as_ref()).await?;
        }
        if let Some(end) = &end {
            self.report(end).await;
        }
        self.movers.clear(self.namespace.as_str(), &task).await?;
        Ok(end)
    }

    /// Reads the current object; None if the end of this maintenance is already recorded in it, because the watch lags
    /// behind.
    async fn under_way(&self, task: &TaskId) -> Result<Option<Value>, ApiError> {
        Ok(self.record.object().await?.filter(|object| is_under_way(object, task)))
    }

    /// Starts the mover and waits for its end. None if this server stops being the leader; the next leader continues.
    async fn end(
        &self,
        object: &Value,
        task: &TaskId,
        run: MaintenanceRun,
    ) -> Result<Option<MaintenanceEnd>, ApiError> {
        let request = match Box::pin(self.request(object, task, run)).await {
            Ok(request) => request,
            Err(MaintenanceError::Api(error)) if error.is_transient() || error.is_conflict() => {
                return Err(error);
            }
            Err(error) => return Ok(Some(MaintenanceEnd::Failed(error))),
        };
        let ended = self.movers.carry_out(request, &Unobserved, &CancellationToken::new()).await?;
        let (end, dead_owner) = match ended {
            MoverEnd::Left => return Ok(None),
            MoverEnd::Reported { result, dead_owner } => {
                let end = reported(result);
                // A mover that did its work removed its lock.
                let dead_owner = dead_owner.filter(|_| matches!(end, MaintenanceEnd::Failed(_)));
                (end, dead_owner)
            }
            MoverEnd::Died(death) => {
                (MaintenanceEnd::Failed(MaintenanceError::Mover(death.message)), death.dead_owner)
            }
            MoverEnd::Cancelled { dead_owner, .. } => {
                (MaintenanceEnd::Failed(MaintenanceError::Cancelled), dead_owner)
            }
        };
        if let Some(owner) = dead_owner {
            Box::pin(self.repositories.unlock(&*self.host, &self.key, &owner)).await;
        }
        Ok(Some(end))
    }

    /// Builds the Job and the task file of the mover.
    async fn request(
        &self,
        object: &Value,
        task: &TaskId,
        run: MaintenanceRun,
    ) -> Result<MoverRequest, MaintenanceError> {
        let access = self.host.access(&self.key).await?;
        let work = TaskWork::Maintain(MaintainWork {
            prune: run.prune,
            check: run.check,
            empty_is_meant: self.empty_is_meant(object, &access).await?,
        });
        let lock = LockTerms {
            cluster: self.repositories.cluster(self.core).await?,
            dead_owners: dead_owners(object),
            wait_seconds: LOCK_WAIT.as_secs(),
        };
        let limits = Limits { scratch: Some(SCRATCH.into()), ..Limits::default() };
        let settings = self.movers.settings();
        let mut job = MoverJob {
            task: task.clone(),
            owner: self.owner.clone(),
            place: MoverPlace::Anywhere,
            repository: self.key.to_string(),
            group: "maintenance".to_owned(),
            deadline_seconds: settings.copy_timeout.as_secs(),
            namespace: self.namespace.clone(),
            pod: settings.pod(&self.core.namespace),
        };
        job.pod = self.record.pod(&job).await?;
        let task = Task { limits, ..Task::single(task.as_str(), work, access.task, lock) };
        let keys = Arc::new(SourceKeys { source: self.host.clone(), key: self.key.clone() });
        Ok(MoverRequest { job, task, keys, turn: None })
    }

    /// Whether the repository is empty and is recorded as having been emptied by Lifeboat. If it has a snapshot, because a
    /// copy was still running when the last one was forgotten, that record is removed. A repository that only movers can
    /// open is never considered empty.
    async fn empty_is_meant(&self, object: &Value, access: &Access) -> Result<bool, RepositoryProblem> {
        if !is_emptied(object) || !access.is_opened_by_server() {
            return Ok(false);
        }
        let listed = self.record.open(access).await?.list(FileKind::Snapshot).await?;
        if !listed.is_empty() {
            self.host.set_emptied(&self.key, false).await?;
        }
        Ok(listed.is_empty())
    }

    /// Logs the end; an event on the object says what is wrong.
    async fn report(&self, end: &MaintenanceEnd) {
        if let MaintenanceEnd::Done(done) = end {
            let Maintained { bytes_freed, packs_deleted, problems } = done;
            let (repository, problems) = (&self.key, problems.count);
            tracing::info!(%repository, bytes_freed, packs_deleted, problems, "maintenance ended");
        }
        if let Some(problem) = end.problem() {
            self.core.events.warning(&self.reference, "MaintenanceFailed", &problem).await;
        }
    }
}

fn reported(result: TaskResult) -> MaintenanceEnd {
    match result.outcome {
        Outcome::Maintained(done) => MaintenanceEnd::Done(done),
        Outcome::Failed(failure) => MaintenanceEnd::Failed(MaintenanceError::Mover(failure.message)),
        _ => MaintenanceEnd::Failed(MaintenanceError::OtherTask),
    }
}

/// A maintenance does not record its progress; its Job shows it.
struct Unobserved;

#[async_trait]
impl MoverObserver for Unobserved {
    async fn queued(&self, _message: &str) {}
    async fn preparing(&self, _message: &str) {}
    async fn running(&self, _node: &str) {}
    async fn line(&self, _line: &LogLine) {}
}
