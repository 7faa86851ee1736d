//! One transfer of a volume: what all kinds have in common, its attempts, and the request for its mover.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use lifeboat_api::common::{GoDuration, NamespaceName, TaskId};
use lifeboat_cluster::ApiError;
use lifeboat_mover::task::{Limits, LockTerms, Part, Task, TaskWork};
use lifeboat_plan::transfer::attempts::task_uid;
use lifeboat_plan::transfer::limits::{Counted, TimeLimits};
use lifeboat_plan::transfer::movers::{MoverJob, MoverPlace, Owner, PodSettings, SCRATCH};
use serde_json::Value;

use super::{Accepted, AttemptRecord, Reach, WorkContext};
use crate::gateway::GatewayPass;
use crate::movers::{MoverRequest, TurnTerms, late_in_queue};
use crate::repositories::RepositoryKey;

/// How long after its last moment a transfer still tries to clean up.
const GRACE: Duration = Duration::from_mins(10);

/// What an object asks for, and what earlier servers recorded in it.
pub struct TransferSpec {
    /// What the tasks of all attempts have in common, as in [`task_uid`]: the UID of the object or, where one object has
    /// several transfers, more than that.
    pub task_base: String,
    /// The namespace of the movers.
    pub namespace: String,
    pub key: RepositoryKey,
    /// The repository, for people, as in "the repository of namespace shop".
    pub repository: String,
    /// Whether a repository that does not exist is created.
    pub make: bool,
    /// The backup or restore that the transfer is part of: groups take turns in the queue of movers.
    pub group: String,
    pub created: Option<Timestamp>,
    /// How long the transfer may take, counted as `counted` says.
    pub limit: Duration,
    pub counted: Counted,
    /// Whether an earlier server saw its mover run.
    pub was_running: bool,
    /// The UID of the pod whose volume is copied, for which a backup may have reserved a place in the queue.
    pub pod: Option<String>,
    /// No server has started the transfer yet.
    pub is_new: bool,
    /// The recorded attempt, from 1.
    pub attempt: Option<u64>,
    /// Lock owners whose movers have ended for certain.
    pub dead_owners: Vec<String>,
}

/// One transfer while this server works on it.
pub struct Transfer {
    pub work: WorkContext,
    pub record: Arc<dyn AttemptRecord>,
    pub key: RepositoryKey,
    pub group: String,
    /// The namespace of the movers.
    pub namespace: String,
    /// How the movers reach the repository if they must not have its keys.
    gateway: Option<GatewayPass>,
    task_base: String,
    pub(super) repository: String,
    pub(super) make: bool,
    pub(super) dead_owners: Vec<String>,
    limits: TimeLimits,
    was_running: bool,
    pod: Option<String>,
    is_new: bool,
    attempt: AtomicU64,
    begun: AtomicBool,
    /// Whether the mover of this attempt may still be running: its end was not reported to this server.
    may_still_run: AtomicBool,
}

/// How fast a mover may use the network, in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    pub upload: Option<u64>,
    pub download: Option<u64>,
}

/// What the mover of an attempt gets: its task and its volume.
pub struct Prepared {
    /// The parts of the task, each with a UID of its own; see [`Transfer::part`].
    pub parts: Vec<Part>,
    pub place: MoverPlace,
    pub pod: PodSettings,
    pub rates: Rates,
    /// The mover's threads, each of which copies one file; None for the mover's own default.
    pub threads: Option<usize>,
    /// Fields of the object's status that identify the data that is copied.
    pub shown: Value,
}

impl Prepared {
    /// One work, whose UID is the task's, for a mover in the movers' own namespace.
    pub fn single(transfer: &Transfer, work: TaskWork, place: MoverPlace, shown: Value) -> Self {
        let parts = vec![Part { uid: transfer.task().to_string(), work }];
        let context = &transfer.work;
        let pod = context.settings.pod(&context.core.namespace);
        Self { parts, place, pod, rates: Rates::default(), threads: None, shown }
    }

    /// With this number of threads, if it is given.
    #[must_use]
    pub fn with_threads(self, threads: Option<usize>) -> Self {
        Self { threads, ..self }
    }
}

impl Transfer {
    pub fn new(work: &WorkContext, record: Arc<dyn AttemptRecord>, spec: TransferSpec) -> Self {
        let created = spec.created.unwrap_or_else(|| work.core.now());
        Self {
            work: work.clone(),
            record,
            key: spec.key,
            group: spec.group,
            namespace: spec.namespace,
            gateway: None,
            task_base: spec.task_base,
            repository: spec.repository,
            make: spec.make,
            dead_owners: spec.dead_owners,
            limits: TimeLimits { created, limit: spec.limit, counted: spec.counted },
            was_running: spec.was_running,
            pod: spec.pod,
            is_new: spec.is_new,
            attempt: AtomicU64::new(spec.attempt.unwrap_or(1)),
            begun: AtomicBool::new(spec.attempt.is_some()),
            may_still_run: AtomicBool::new(spec.attempt.is_some()),
        }
    }

    /// Lets the movers reach the repository through a gateway, without its keys.
    #[must_use]
    pub fn through(self, gateway: Option<GatewayPass>) -> Self {
        Self { gateway, ..self }
    }

    pub fn owner(&self) -> Owner {
        self.record.owner()
    }

    /// The number of the current attempt, from 1.
    pub fn attempt(&self) -> u64 {
        self.attempt.load(Ordering::Relaxed)
    }

    pub(super) fn set_attempt(&self, attempt: u64) {
        self.attempt.store(attempt, Ordering::Relaxed);
    }

    /// Whether a mover may have been started.
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    /// The task ID of this attempt.
    pub fn task(&self) -> TaskId {
        task_uid(&self.task_base, self.attempt())
    }

    /// The UID of a part of this attempt's task, by its number from 0.
    pub fn part(&self, number: usize) -> String {
        format!("{}.{number}", self.task())
    }

    /// The task IDs of all attempts, the newest last.
    pub fn tasks(&self) -> impl Iterator<Item = TaskId> + '_ {
        (1..=self.attempt()).map(|number| task_uid(&self.task_base, number))
    }

    pub fn now(&self) -> Timestamp {
        self.work.core.now()
    }

    /// Whether no mover may be started any more.
    pub fn is_late(&self) -> bool {
        self.now() >= self.over()
    }

    /// The time after which nothing is started or waited for in this attempt.
    pub fn over(&self) -> Timestamp {
        self.limits.over(self.attempt(), self.was_running)
    }

    /// The message for a transfer whose mover was not started in time.
    pub fn not_started(&self) -> String {
        match self.limits.counted {
            Counted::FromStart { queue } if !self.was_running => late_in_queue(queue),
            _ => self.late(),
        }
    }

    /// The message for a transfer whose time is over: names the limit and the setting that extends it.
    pub fn late(&self) -> String {
        let (limit, setting) = (GoDuration::from(self.limits.limit), self.record.limit_setting());
        format!("it did not end within {limit} ({setting})")
    }

    /// Whether an error would prevent the transfer from ever ending, because every further try would fail in the same way.
    pub(super) fn is_hopeless(&self, error: &ApiError) -> bool {
        let over = self.limits.over(self.attempt(), self.has_begun());
        is_refusal(error) || over.checked_add(GRACE).is_ok_and(|over| self.now() >= over)
    }

    /// Records the attempt. False if the object is gone.
    pub(super) async fn accept(&self, reach: &Reach, prepared: &Prepared) -> Result<bool, ApiError> {
        let attempt = self.attempt();
        // An object whose transfer another server started keeps its phase.
        let begins = self.is_new || attempt > 1;
        self.begun.store(true, Ordering::Relaxed);
        self.set_may_still_run(true);
        let accepted = Accepted { attempt, begins, repository: &reach.identifier, shown: &prepared.shown };
        self.record.accept(accepted).await
    }

    /// The request for the mover of this attempt.
    pub(super) fn request(&self, dead_owners: &[String], reach: Reach, prepared: Prepared) -> MoverRequest {
        let id = self.task();
        let lock = LockTerms { cluster: reach.cluster, dead_owners: dead_owners.to_vec(), wait_seconds: 0 };
        let mut task = Task {
            uid: id.to_string(),
            parts: prepared.parts,
            repository: Some(reach.task),
            lock,
            limits: Limits {
                threads: prepared.threads,
                upload: prepared.rates.upload,
                download: prepared.rates.download,
                scratch: Some(SCRATCH.into()),
                nice: prepared.pod.nice,
            },
            deadline: None,
        };
        let job = MoverJob {
            task: id,
            owner: self.owner(),
            place: prepared.place,
            repository: self.key.to_string(),
            group: self.group.clone(),
            deadline_seconds: 0,
            namespace: NamespaceName::new(&self.namespace),
            pod: prepared.pod,
        };
        let keys = match &self.gateway {
            None => reach.keys,
            Some(gateway) => {
                task.repository = None;
                gateway.keys(&self.key, &job, self.limits.over(self.attempt(), true))
            }
        };
        let turn = TurnTerms { limits: self.limits, attempt: self.attempt(), pod: self.pod.clone() };
        let mut request = MoverRequest { job, task, keys, turn: Some(turn) };
        request.begin(self.now());
        request
    }

    /// Removes the movers of all attempts.
    pub async fn clear(&self) -> Result<(), ApiError> {
        for task in self.tasks() {
            self.work.effects.clear(&self.namespace, &task).await?;
        }
        Ok(())
    }

    pub(super) fn set_may_still_run(&self, may_still_run: bool) {
        self.may_still_run.store(may_still_run, Ordering::Relaxed);
    }

    /// Gives up the mover of this attempt, as the record says next: a snapshot that it may still store is forgotten
    /// later.
    pub(super) async fn give_up(&self) {
        if self.may_still_run.swap(false, Ordering::Relaxed) {
            self.give_up_tasks([self.task()]).await;
        }
    }

    /// Records that snapshots which these tasks stored, or may still store, are to be forgotten.
    pub(super) async fn give_up_tasks(&self, tasks: impl IntoIterator<Item = TaskId>) {
        // A mover that runs now has started before.
        let end = self.limits.end_of_mover(self.now());
        for task in tasks.into_iter().filter(|_| self.make) {
            self.work.effects.give_up(&self.key, &task, end).await;
        }
    }

    /// Removes the locks of a mover whose container has ended for certain.
    pub(super) async fn unlock(&self, owner: Option<&str>) {
        if let Some(owner) = owner {
            self.work.effects.unlock(&self.key, owner).await;
        }
    }
}

/// Whether the API server refuses the request whenever it is sent.
pub(super) fn is_refusal(error: &ApiError) -> bool {
    error.is_invalid() || error.code() == Some(403)
}
