//! Runs movers: takes a [`MoverRequest`], creates its Job, follows its progress and returns how it ended. Controllers of
//! volumes call [`Movers::carry_out`], which waits for a turn, creates the Job or adopts an existing one, and follows it;
//! they call [`Movers::clear`] after they have recorded the result. This module does not depend on the kind of the data.
//!
//! Job and Secret are named by the task. A caller that was interrupted at any point calls again with the same task,
//! which continues from what exists: nothing, a Secret without its Job, a running Job, or a Job that has ended.

mod follow;
mod found;
mod looked;
mod make;
mod metrics;
mod records;
mod reserve;
mod sweep;
#[cfg(test)]
pub(crate) mod tests;
mod turn;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use lifeboat_api::common::{GoDuration, TaskId};
use lifeboat_cluster::ApiError;
use lifeboat_cluster::jobs::Jobs;
use lifeboat_control::{Core, locked};
use lifeboat_mover::report::{LogLine, Outcome, TaskResult};
use lifeboat_mover::task::Task;
use lifeboat_plan::transfer::limits::TimeLimits;
use lifeboat_plan::transfer::movers::queue::Candidate;
use lifeboat_plan::transfer::movers::verdict::Dead;
use lifeboat_plan::transfer::movers::{MoverJob, job};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::repositories::Keys;
use crate::settings::MoverSettings;
use follow::Follower;
use found::Limited;
pub use lifeboat_plan::transfer::movers::verdict::DeathCause;
pub use looked::{LinesLost, ListedSnapshots};
use metrics::MoverMetrics;
use records::AllRecords;
pub use records::{TaskRecords, TaskState};
pub use reserve::{PlaceRequest, Reserved};
use turn::{Ends, MoverQueue, Waited};

/// How often the state of a mover is read if no watch reports a change.
const LOOK: Duration = Duration::from_secs(2);

/// The queue of movers and their Jobs. Clones share them.
#[derive(Clone)]
pub struct Movers {
    core: Arc<Core>,
    settings: Arc<MoverSettings>,
    metrics: MoverMetrics,
    queue: MoverQueue,
    /// Decides which of the Jobs with our labels belong to a task.
    records: AllRecords,
    shutdown: Arc<Mutex<CancellationToken>>,
    limited: Limited,
    look: Duration,
}

/// The work of a mover, where it runs, and its permissions.
pub struct MoverRequest {
    /// What its Job is built from, with the namespace and the settings of its pod.
    pub job: MoverJob,
    /// The task file that the mover reads.
    pub task: Task,
    /// The credentials of the repository, read when the mover gets its turn.
    pub keys: Arc<dyn Keys>,
    /// When the mover must get its turn and end, if that depends on the turn; otherwise Job and task have their deadlines
    /// already.
    pub turn: Option<TurnTerms>,
}

/// The time limits of a mover that waits for its turn.
#[derive(Clone, Debug)]
pub struct TurnTerms {
    pub limits: TimeLimits,
    /// The number of the attempt, from 1.
    pub attempt: u64,
    /// The UID of the pod whose volume is read.
    pub pod: Option<String>,
}

impl MoverRequest {
    /// Sets the deadlines of a mover that starts at this time.
    pub fn begin(&mut self, start: Timestamp) {
        let Some(turn) = &self.turn else { return };
        let end = turn.limits.end_of_mover(start);
        // As a pod's `activeDeadlineSeconds` wants them.
        let seconds = u64::try_from(end.as_second() - start.as_second()).unwrap_or(0).max(1);
        // A mover that waits for a lock in vain needs time to report who holds the lock.
        self.task.lock.wait_seconds = seconds - (seconds / 10).min(30);
        self.task.deadline = Some(end);
        self.job.deadline_seconds = seconds;
    }

    /// The time at which the mover must have its turn.
    fn start_by(&self) -> Option<Timestamp> {
        self.turn.as_ref().and_then(|turn| turn.limits.start_by(turn.attempt))
    }

    fn candidate(&self) -> Candidate {
        let pod = self.turn.as_ref().and_then(|turn| turn.pod.clone());
        Candidate { pods: pod.into_iter().collect(), ..Candidate::of(&self.job) }
    }
}

/// The message for a mover that had to wait too long for its turn.
pub fn late_in_queue(limit: Duration) -> String {
    let limit = GoDuration::from(limit);
    format!(
        "its mover did not start within {limit} (--mover-queue-timeout), because others were ahead of it in the queue"
    )
}

/// Receives the state of a mover and writes it to the status of an object. Its methods are not called concurrently.
#[async_trait]
pub trait MoverObserver: Send + Sync {
    /// The mover waits for a turn. The message has the reason, as in "waits for its turn: 2 movers run on node a (limit 2,
    /// --movers-per-node); 3 are ahead of it".
    async fn queued(&self, message: &str);
    /// The pod of the mover exists and waits for an image, a node with free resources, or a volume.
    async fn preparing(&self, message: &str);
    /// The image of the pod cannot be pulled. [`Self::preparing`] says that too.
    async fn without_image(&self) {}
    /// The container of the mover runs.
    async fn running(&self, node: &str);
    /// The mover printed a line: progress, or the lock that it waits for.
    async fn line(&self, line: &LogLine);
}

/// How a mover ended.
#[derive(Debug)]
pub enum MoverEnd {
    /// The mover reported its result, a success or a failure. As in [`Death`], `dead_owner` may have left locks.
    Reported { result: TaskResult, dead_owner: Option<String> },
    /// The mover ended without a result, or was never started.
    Died(Death),
    /// Cancelled by the caller. `is_over`: the mover has ended. As in [`Death`], `dead_owner` may have left locks.
    Cancelled { dead_owner: Option<String>, is_over: bool },
    /// This server is no longer the leader: the Job continues, and the next leader adopts it.
    Left,
}

/// Why a mover ended without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    pub cause: DeathCause,
    /// For people: what happened and what to do.
    pub message: String,
    /// The owner of its locks, `<cluster>/<pod>`, if the kubelet reported the container's end: the locks may be removed.
    pub dead_owner: Option<String>,
    /// Whether the same request may succeed when it is tried again (killed, evicted, node lost), under another UID.
    pub may_retry: bool,
}

impl Death {
    /// `owner` is the owner of the mover's locks.
    fn new(dead: Dead, owner: Option<String>) -> Self {
        let dead_owner = owner.filter(|_| dead.reported);
        Self { cause: dead.cause, message: dead.message, dead_owner, may_retry: dead.may_retry }
    }
}

impl Movers {
    /// Registers the metrics of movers, so it is called once for each server.
    pub(crate) fn new(core: &Core, settings: MoverSettings) -> Self {
        Self {
            core: Arc::new(core.clone()),
            settings: Arc::new(settings),
            metrics: MoverMetrics::register(&core.metrics),
            queue: MoverQueue::default(),
            records: AllRecords::default(),
            shutdown: Arc::default(),
            limited: Limited::default(),
            look: LOOK,
        }
    }

    pub fn settings(&self) -> &Arc<MoverSettings> {
        &self.settings
    }

    /// Adds the records of an API. Without them, the Jobs of its tasks are not recognised.
    pub fn add_records(&self, records: Arc<dyn TaskRecords>) {
        self.records.add(records);
    }

    /// The Jobs of a namespace.
    fn jobs(&self, namespace: &str) -> Jobs {
        Jobs::new(&self.core.client, namespace)
    }

    /// Starts a term of leadership; when `shutdown` is cancelled, movers are left to the next leader.
    pub(crate) fn begin_term(&self, shutdown: &CancellationToken) {
        *locked(&self.shutdown) = shutdown.clone();
        self.queue.begin_term();
    }

    /// Called when this server is no longer the leader: resets the metrics, which the next leader sets.
    pub(crate) fn end_term(&self) {
        self.metrics.set(0, 0);
    }

    /// Runs the mover to its end. `cancel` ends the mover (cancelled by the user, or a timeout); at the end of the term the
    /// mover is left running. An error is an error of the API server: the caller calls again with the same request.
    pub async fn carry_out(
        &self,
        request: MoverRequest,
        observer: &dyn MoverObserver,
        cancel: &CancellationToken,
    ) -> Result<MoverEnd, ApiError> {
        let ended = Box::pin(self.run_to_end(request, observer, cancel)).await?;
        self.metrics.ended(label(&ended));
        Ok(ended)
    }

    async fn run_to_end(
        &self,
        mut request: MoverRequest,
        observer: &dyn MoverObserver,
        cancel: &CancellationToken,
    ) -> Result<MoverEnd, ApiError> {
        let shutdown = locked(&self.shutdown).clone();
        if shutdown.is_cancelled() {
            return Ok(MoverEnd::Left);
        }
        self.count_running().await?;
        let jobs = self.jobs(request.job.namespace.as_str());
        let candidate = request.candidate();
        let (turn, found) = match self.adoptable(&jobs, &request.job).await? {
            Some(found) => {
                request.begin(created(&found).unwrap_or_else(|| self.core.now()));
                (self.queue.adopt(&self.metrics, candidate), found)
            }
            None if cancel.is_cancelled() => {
                return Ok(MoverEnd::Cancelled { dead_owner: None, is_over: true });
            }
            None => {
                if let Some(refused) = make::refused(&self.settings, &request.job) {
                    return Ok(MoverEnd::Died(Death::new(refused, None)));
                }
                let until = request.start_by().map(|start_by| self.instant(start_by));
                let ends = Ends { cancel, shutdown: &shutdown, until };
                let turn = match self.queue.wait(&self.metrics, candidate, observer, ends).await {
                    Waited::Turn(turn) => turn,
                    Waited::Cancelled => return Ok(MoverEnd::Cancelled { dead_owner: None, is_over: true }),
                    Waited::Left => return Ok(MoverEnd::Left),
                    Waited::Late => {
                        let message = late_in_queue(self.settings.queue_timeout);
                        return Ok(MoverEnd::Died(Death::new(Dead::new(DeathCause::Refused, message), None)));
                    }
                };
                request.begin(self.core.now());
                match self.make(&jobs, &request).await? {
                    Ok(made) => (turn, made),
                    Err(refused) => return Ok(MoverEnd::Died(Death::new(refused, None))),
                }
            }
        };
        make::complete(&jobs, &request, &found).await?;
        let settling = Settling { turn: &turn, observer };
        let follower = Follower::new(&jobs, self, &request, found);
        let ended = follower.run(&settling, cancel, &shutdown).await;
        drop(turn);
        ended
    }

    /// Removes the Job, its pod and its Secret; called after the result was recorded.
    pub async fn clear(&self, namespace: &str, task: &TaskId) -> Result<(), ApiError> {
        clear(&self.jobs(namespace), &job::name(task)).await
    }

    /// When this time is, by the clock that is waited with.
    fn instant(&self, time: Timestamp) -> Instant {
        let left = time.duration_since(self.core.now());
        Instant::now() + Duration::try_from(left).unwrap_or_default()
    }

    /// The existing Job of this name, if it was created for this task.
    async fn adoptable(&self, jobs: &Jobs, wanted: &MoverJob) -> Result<Option<Value>, ApiError> {
        let Some(found) = jobs.get(&job::name(&wanted.task)).await? else { return Ok(None) };
        if self.is_ours(&found).await? {
            return Ok(Some(found));
        }
        tracing::warn!(
            namespace = %wanted.namespace,
            job = job::name(&wanted.task),
            "a Job has the name of a mover and belongs to no task; it is removed"
        );
        clear(jobs, &job::name(&wanted.task)).await?;
        Ok(None)
    }
}

/// Counts the mover towards the limit of the node on which it runs, and forwards all calls to the observer.
struct Settling<'a> {
    turn: &'a turn::Turn,
    observer: &'a dyn MoverObserver,
}

#[async_trait]
impl MoverObserver for Settling<'_> {
    async fn queued(&self, message: &str) {
        self.observer.queued(message).await;
    }

    async fn preparing(&self, message: &str) {
        self.observer.preparing(message).await;
    }

    async fn without_image(&self) {
        self.turn.park();
    }

    async fn running(&self, node: &str) {
        self.turn.settle(node);
        self.observer.running(node).await;
    }

    async fn line(&self, line: &LogLine) {
        self.observer.line(line).await;
    }
}

/// When a Job was created.
fn created(job: &Value) -> Option<Timestamp> {
    job["metadata"]["creationTimestamp"].as_str()?.parse().ok()
}

async fn clear(jobs: &Jobs, name: &str) -> Result<(), ApiError> {
    jobs.delete(name).await?;
    // The Secret is deleted with its Job only if the Job was recorded as its owner.
    jobs.delete_secret(name).await
}

/// How a mover ended, for metrics.
fn label(ended: &MoverEnd) -> &'static str {
    match ended {
        MoverEnd::Reported { result, .. } => match &result.outcome {
            Outcome::Failed(_) => "failed",
            outcome @ Outcome::Parts(_) if !outcome.is_done() => "failed",
            _ => "done",
        },
        MoverEnd::Cancelled { .. } => "cancelled",
        MoverEnd::Left => "left",
        MoverEnd::Died(death) => match death.cause {
            DeathCause::Killed => "killed",
            DeathCause::Evicted => "evicted",
            DeathCause::OutOfMemory => "out-of-memory",
            DeathCause::Image => "image",
            DeathCause::Deadline => "deadline",
            DeathCause::NodeLost => "node-lost",
            DeathCause::Unschedulable => "unschedulable",
            DeathCause::Volume => "volume",
            DeathCause::Deleted => "deleted",
            DeathCause::Refused => "refused",
        },
    }
}
