//! The task of a mover that works for the server on a repository: its Job, its parts, and its report.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use jiff::SignedDuration;
use kube::ResourceExt;
use lifeboat_api::common::{NamespaceName, TaskId};
use lifeboat_api::stash::Repository;
use lifeboat_mover::report::{Cause, Failure, LogLine, Outcome, SnapshotLine, TaskResult};
use lifeboat_mover::task::{Limits, LockTerms, Part, Task, TaskWork};
use lifeboat_plan::transfer::movers::{MoverJob, MoverPlace, Owner, SCRATCH};
use lifeboat_plan::transfer::repository_notes::dead_owners;
use lifeboat_transfer::movers::{ListedSnapshots, MoverObserver, MoverRequest};
use lifeboat_transfer::repositories::{Access, RepositoryProblem, SourceKeys};

use super::super::host::TenantRepositories;
use super::super::opened::to_json;
use super::super::{object, used_by};
use super::MOST_LISTED;
use crate::context::Context;
use crate::mover_pods::{PodRequest, pod_settings};

/// How long a mover may take after the wait for its turn, and how long it may wait for a lock within that time.
const LIMIT: Duration = Duration::from_mins(30);
const LOCK_WAIT: Duration = Duration::from_mins(20);

/// The request for a mover: its Job in the namespace of the Repository, and its task.
pub(super) async fn request(
    context: &Context,
    repository: &Repository,
    access: &Access,
    task: &TaskId,
    works: Vec<TaskWork>,
) -> Result<MoverRequest, RepositoryProblem> {
    let (namespace, name) = object::parts(repository);
    let runtime = used_by::runtime_settings(context, repository).await?;
    let mut job = MoverJob {
        task: task.clone(),
        owner: Owner {
            kind: "Repository".to_owned(),
            namespace: NamespaceName::new(namespace),
            name: name.to_owned(),
            uid: repository.uid().unwrap_or_default(),
        },
        place: MoverPlace::Anywhere,
        repository: access.key.to_string(),
        group: format!("{namespace}/{name}"),
        deadline_seconds: LIMIT.as_secs(),
        namespace: NamespaceName::new(namespace),
        pod: context.movers.settings().pod(&context.namespace),
    };
    let wanted = PodRequest { job: &job, runtime: runtime.as_ref(), target: None };
    let pod = pod_settings(context, context.movers.settings(), &wanted).await?;
    job.pod = pod.map_err(|refused| RepositoryProblem::Unusable(refused.to_string()))?;
    let lock = LockTerms {
        cluster: context.repositories.cluster(context).await?,
        dead_owners: dead_owners(&to_json(repository)),
        wait_seconds: LOCK_WAIT.as_secs(),
    };
    let deadline =
        SignedDuration::try_from(LIMIT).ok().and_then(|limit| context.now().checked_add(limit).ok());
    let task = Task {
        uid: task.to_string(),
        parts: parts(task, works),
        repository: Some(access.task.clone()),
        lock,
        limits: Limits { scratch: Some(SCRATCH.into()), nice: job.pod.nice, ..Limits::default() },
        deadline,
    };
    let source = Arc::new(TenantRepositories(context.clone()));
    let keys = Arc::new(SourceKeys { source, key: access.key.clone() });
    Ok(MoverRequest { job, task, keys, turn: None })
}

/// The parts of a task; the only one has the task's UID.
fn parts(task: &TaskId, works: Vec<TaskWork>) -> Vec<Part> {
    let is_one = works.len() == 1;
    let uid = |number: usize| if is_one { task.to_string() } else { part_uid(task, number) };
    works.into_iter().enumerate().map(|(number, work)| Part { uid: uid(number), work }).collect()
}

fn part_uid(task: &TaskId, number: usize) -> String {
    format!("{task}.{number}")
}

/// The outcomes of all parts. If one part failed, its problem is returned.
pub(super) fn outcomes(
    result: TaskResult,
    task: &TaskId,
    count: usize,
    access: &Access,
) -> Result<Vec<Outcome>, RepositoryProblem> {
    let all: Vec<Option<Outcome>> = match (&result.outcome, count) {
        (Outcome::Parts(_) | Outcome::Failed(_), 2..) => {
            (0..count).map(|number| result.of_part(&part_uid(task, number)).cloned()).collect()
        }
        _ => vec![Some(result.outcome)],
    };
    all.into_iter()
        .map(|outcome| match outcome {
            Some(Outcome::Failed(failure)) => Err(problem(failure, access)),
            Some(outcome) => Ok(outcome),
            None => Err(wrong_image()),
        })
        .collect()
}

fn problem(failure: Failure, access: &Access) -> RepositoryProblem {
    match failure.cause {
        Cause::NoRepository => {
            lifeboat_repository::Error::NoRepository { location: access.identifier.clone() }.into()
        }
        Cause::Password | Cause::Credentials | Cause::Task => RepositoryProblem::Unusable(failure.message),
        _ => RepositoryProblem::Storage(failure.message),
    }
}

pub(super) fn wrong_image() -> RepositoryProblem {
    let message = "the mover did something else; use the server's image for movers";
    RepositoryProblem::Unusable(message.to_owned())
}

/// The snapshots that the mover lists. Entries that could fill the server's memory are dropped; then the number of
/// snapshots differs from the result, and the inspection is not used.
#[derive(Default)]
pub(super) struct Lines {
    pub(super) listed: ListedSnapshots,
    received: AtomicU64,
}

#[async_trait]
impl MoverObserver for Lines {
    async fn queued(&self, _message: &str) {}
    async fn preparing(&self, _message: &str) {}
    async fn running(&self, _node: &str) {}

    async fn line(&self, line: &LogLine) {
        let LogLine::Snapshots { snapshots } = line else { return };
        let before = self.received.fetch_add(snapshots.len() as u64, Ordering::Relaxed);
        // After a lost connection lines may come twice.
        if before <= 2 * MOST_LISTED {
            let kept = snapshots.iter().filter(|snapshot| is_bounded(snapshot)).cloned().collect();
            self.listed.line(&LogLine::Snapshots { snapshots: kept }).await;
        }
    }
}

/// Whether a listed snapshot is valid: its ID is complete, and its lists have a usual length.
fn is_bounded(snapshot: &SnapshotLine) -> bool {
    let is_id = snapshot.id.len() == 64 && snapshot.id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let bytes = snapshot.paths.iter().chain(&snapshot.tags).map(String::len).sum::<usize>();
    is_id && bytes + snapshot.host.len() <= 64 * 1024
}
