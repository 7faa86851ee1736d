//! One maintenance of a repository: a mover prunes and checks it, in the Repository's own namespace, because its
//! Secret must not leave that namespace. The run's number is recorded in an annotation before the Job is created, and
//! removed after the result is in the status; then the Job is deleted.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use lifeboat_api::common::{TaskId, Time};
use lifeboat_api::stash::{Repository, RepositoryStatus};
use lifeboat_cluster::{ApiError, Attempt};
use lifeboat_mover::report::{LogLine, Maintained, Outcome, TaskResult};
use lifeboat_mover::task::{Limits, LockTerms, MaintainWork, Task, TaskWork};
use lifeboat_plan::stash::repository::due::Run;
use lifeboat_plan::stash::state::conditions::ConditionType;
use lifeboat_plan::transfer::movers::{MoverJob, MoverPlace, Owner, SCRATCH};
use lifeboat_plan::transfer::repository_notes::{
    EMPTIED, MAINTENANCE, dead_owners, is_under_way, task, unlocked,
};
use lifeboat_repository::files::FileKind;
use lifeboat_transfer::movers::{MoverEnd, MoverObserver, MoverRequest};
use lifeboat_transfer::repositories::{Access, SourceKeys};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::super::host::{NoAccess, access_of};
use super::super::opened::to_json;
use super::super::{TenantRepositories, key_of, look, object, used_by};
use crate::context::Context;
use crate::mover_pods::{PodRequest, pod_settings};

/// The lock that the mover waits for may be left behind by a dead process; such a lock is stale after thirty minutes.
const LOCK_WAIT: Duration = Duration::from_mins(35);

/// How a maintenance ended.
enum MaintenanceEnd {
    Done(Maintained),
    /// For people: what happened and what to do.
    Failed(String),
}

/// Records that a run begins.
pub(super) async fn begin(
    context: &Context,
    repository: &Repository,
    run: Run,
) -> Result<Repository, ApiError> {
    let patch = json!({"metadata": {"annotations": {MAINTENANCE: run.number.to_string()}}});
    object::merge(context, repository, patch).await
}

/// Reads the current object; None if this run is already recorded in it, because the watch lags behind.
async fn under_way(
    context: &Context,
    repository: &Repository,
    run: &TaskId,
) -> Result<Option<Repository>, ApiError> {
    let (namespace, name) = object::parts(repository);
    let found = object::api(context, namespace)
        .get_opt(name)
        .await
        .attempt(format!("read Repository {namespace}/{name}"))?;
    Ok(found.filter(|found| is_under_way(&to_json(found), run)))
}

/// Runs it to its end and records that. False if it failed.
pub(super) async fn carry_out(
    context: &Context,
    repository: &Repository,
    run: Run,
) -> Result<bool, ApiError> {
    let task = task(&repository.uid().unwrap_or_default(), run.number);
    let Some(repository) = &under_way(context, repository, &task).await? else { return Ok(true) };
    let namespace = repository.namespace().unwrap_or_default();
    let end = match run {
        // The end was recorded, and the server stopped before it removed the number.
        Run { prune: false, check: false, .. } => None,
        run => match Box::pin(ended(context, repository, &task, run)).await? {
            Some(end) => Some(end),
            None => return Ok(true),
        },
    };
    if let Some(end) = &end {
        record(context, repository, run, end).await?;
        let about = repository.object_ref(&());
        match end {
            MaintenanceEnd::Done(done) => {
                tracing::info!(namespace, repository = repository.name_any(), ?done, "maintenance ended");
                let dead = dead_owners(&to_json(repository));
                if !dead.is_empty() {
                    // The mover's task listed these owners, and the mover removed their locks.
                    object::annotate(context, &namespace, &repository.name_any(), unlocked(&dead)).await?;
                }
            }
            MaintenanceEnd::Failed(message) => {
                context.events.warning(&about, "MaintenanceFailed", message).await;
            }
        }
    }
    if under_way(context, repository, &task).await?.is_some() {
        let patch = json!({"metadata": {"annotations": {MAINTENANCE: null}}});
        object::annotate(context, &namespace, &repository.name_any(), patch).await?;
    }
    context.movers.clear(&namespace, &task).await?;
    Ok(!matches!(end, Some(MaintenanceEnd::Failed(_))))
}

/// Starts the mover and waits for its end. None if this server stops being the leader; the next leader continues.
async fn ended(
    context: &Context,
    repository: &Repository,
    task: &TaskId,
    run: Run,
) -> Result<Option<MaintenanceEnd>, ApiError> {
    let request = match Box::pin(request(context, repository, task, run)).await? {
        Ok(request) => request,
        Err(message) => return Ok(Some(MaintenanceEnd::Failed(message))),
    };
    let ended = context.movers.carry_out(request, &Quiet, &CancellationToken::new()).await?;
    let (end, dead_owner) = match ended {
        MoverEnd::Left => return Ok(None),
        MoverEnd::Reported { result, dead_owner } => {
            let end = reported(result);
            let dead_owner = dead_owner.filter(|_| matches!(end, MaintenanceEnd::Failed(_)));
            (end, dead_owner)
        }
        MoverEnd::Died(death) => (MaintenanceEnd::Failed(death.message), death.dead_owner),
        MoverEnd::Cancelled { dead_owner, .. } => {
            (MaintenanceEnd::Failed("it was cancelled".to_owned()), dead_owner)
        }
    };
    if let Some(owner) = dead_owner {
        let (namespace, name) = object::parts(repository);
        let host = TenantRepositories(context.clone());
        context.repositories.unlock(&host, &key_of(namespace, name), &owner).await;
    }
    Ok(Some(end))
}

fn reported(result: TaskResult) -> MaintenanceEnd {
    match result.outcome {
        Outcome::Maintained(done) => MaintenanceEnd::Done(done),
        Outcome::Failed(failure) => MaintenanceEnd::Failed(failure.message),
        _ => MaintenanceEnd::Failed(
            "the mover did something else; use the server's image for movers".to_owned(),
        ),
    }
}

/// Writes the end of a run into the status.
async fn record(
    context: &Context,
    repository: &Repository,
    run: Run,
    end: &MaintenanceEnd,
) -> Result<(), ApiError> {
    let (namespace, name) = object::parts(repository);
    let begun = i64::try_from(run.number).ok().and_then(|second| Timestamp::from_second(second).ok());
    let now = context.now();
    object::change_status(context, namespace, name, |repository| {
        let status = repository.status.clone().unwrap_or_default();
        with_end(status, run, end, begun.unwrap_or(now), now)
    })
    .await
}

fn with_end(
    mut status: RepositoryStatus,
    run: Run,
    end: &MaintenanceEnd,
    begun: Timestamp,
    now: Timestamp,
) -> RepositoryStatus {
    let maintained = match end {
        MaintenanceEnd::Failed(message) => ConditionType::RepositoryMaintained.no(message.clone()),
        MaintenanceEnd::Done(done) => {
            if run.prune {
                status.last_prune_time = Some(Time(begun));
            }
            if run.check {
                status.last_check_time = Some(Time(begun));
                status.integrity = Some(done.problems.count == 0);
            }
            match done.problems.count {
                0 => ConditionType::RepositoryMaintained.yes(""),
                count => ConditionType::RepositoryMaintained.no(format!(
                    "the check found {count} problems: {}; see docs/repository.md for repairs",
                    done.problems.first.join("; ")
                )),
            }
        }
    };
    maintained.set_in(&mut status.conditions, now);
    status
}

/// The work in the mover's task. The inner error is a message for people.
async fn request(
    context: &Context,
    repository: &Repository,
    task: &TaskId,
    run: Run,
) -> Result<Result<MoverRequest, String>, ApiError> {
    let (namespace, name) = object::parts(repository);
    let found = match access_of(context, repository).await {
        Ok(found) => found,
        Err(NoAccess::Api(error)) => return Err(error),
        Err(problem) => return Ok(Err(problem.to_string())),
    };
    let empty_is_meant = match empty_is_meant(context, repository, &found.access).await {
        Ok(is_meant) => is_meant,
        Err(message) => return Ok(Err(message)),
    };
    let lock = LockTerms {
        cluster: context.repositories.cluster(context).await?,
        dead_owners: dead_owners(&to_json(repository)),
        wait_seconds: LOCK_WAIT.as_secs(),
    };
    let limits = Limits { scratch: Some(SCRATCH.into()), ..Limits::default() };
    let work = TaskWork::Maintain(MaintainWork { prune: run.prune, check: run.check, empty_is_meant });
    let owner = Owner {
        kind: "Repository".to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: repository.uid().unwrap_or_default(),
    };
    let mut job = MoverJob {
        task: task.clone(),
        owner,
        place: MoverPlace::Anywhere,
        repository: found.access.key.to_string(),
        group: "maintenance".to_owned(),
        deadline_seconds: context.movers.settings().copy_timeout.as_secs(),
        namespace: namespace.to_owned(),
        pod: context.movers.settings().pod(&context.namespace),
    };
    let runtime = used_by::runtime_settings(context, repository).await?;
    let wanted = PodRequest { job: &job, runtime: runtime.as_ref(), target: None };
    job.pod = match pod_settings(context, context.movers.settings(), &wanted).await? {
        Ok(pod) => pod,
        Err(problem) => return Ok(Err(problem.to_string())),
    };
    let task = Task { limits, ..Task::single(task.as_str(), work, found.access.task.clone(), lock) };
    let source = Arc::new(TenantRepositories(context.clone()));
    let keys = Arc::new(SourceKeys { source, key: found.access.key.clone() });
    Ok(Ok(MoverRequest { job, task, keys }))
}

/// Whether the repository is empty and is recorded as having been emptied by Lifeboat. A repository that only movers
/// can open is never considered empty.
async fn empty_is_meant(context: &Context, repository: &Repository, access: &Access) -> Result<bool, String> {
    if !repository.annotations().contains_key(EMPTIED) || !access.is_opened_by_server() {
        return Ok(false);
    }
    let opened = look::open(context, access).await.map_err(|problem| problem.chain())?;
    let listed = opened.list(FileKind::Snapshot).await.map_err(|error| error.to_string())?;
    Ok(listed.is_empty())
}

/// A maintenance has no record of its progress; its Job shows it.
struct Quiet;

#[async_trait]
impl MoverObserver for Quiet {
    async fn queued(&self, _message: &str) {}
    async fn preparing(&self, _message: &str) {}
    async fn running(&self, _node: &str) {}
    async fn line(&self, _line: &LogLine) {}
}
