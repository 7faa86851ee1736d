//! Follows a mover: reads its Job, pod and node whenever the pod changes and every few seconds, passes on the lines
//! that the mover prints, and ends with the verdict of crate `plan`. Called by `movers` with a Job that exists.

use std::time::Duration;

use futures::{Stream, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::{WatchStreamExt, watcher};
use lifeboat_cluster::ApiError;
use lifeboat_cluster::jobs::Jobs;
use lifeboat_control::Clock;
use lifeboat_mover::report::{Cause, Failure, LogLine, Outcome, TaskResult};
use lifeboat_mover::task::TaskWork;
use lifeboat_plan::transfer::movers::job::{self, CONTAINER, GRACE_SECONDS};
use lifeboat_plan::transfer::movers::verdict::{
    Dead, DeathCause, MoverFacts, NodeSeen, Patience, Stuck, Verdict, Warning, stuck, verdict,
};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{Death, MoverEnd, MoverObserver, MoverRequest, Movers};

/// How often the node and the events, which are not watched, are read.
const SURROUNDINGS: Duration = Duration::from_secs(10);
/// How long to wait for the last log lines of a mover that ended.
const LAST_LINES: Duration = Duration::from_secs(4);
/// How long a cancelled mover may take beyond its grace period.
const BEYOND_GRACE: Duration = Duration::from_mins(1);

/// Follows one mover.
pub(super) struct Follower<'a> {
    jobs: &'a Jobs,
    request: &'a MoverRequest,
    patience: Patience,
    clock: Clock,
    look: Duration,
    name: String,
    job: Option<Value>,
    pod: Option<Value>,
    had_pod: bool,
    /// Whether a pod of the mover was ever given to a node; one that was not has never run.
    was_assigned: bool,
    /// The node as it was read last; None if it does not exist.
    node: Option<Value>,
    node_name: Option<String>,
    warning: Option<Warning>,
    surroundings_read: Option<Instant>,
    stuck: Option<(Stuck, Timestamp)>,
    reported: String,
    /// When a cancelled mover must have ended.
    ending: Option<Instant>,
    log: Log,
}

/// The lines that a mover prints, read in the background.
struct Log {
    sender: Option<mpsc::Sender<String>>,
    lines: mpsc::Receiver<String>,
    ended: CancellationToken,
    /// Reading stops when this is dropped.
    readers: JoinSet<()>,
}

impl<'a> Follower<'a> {
    pub(super) fn new(jobs: &'a Jobs, movers: &Movers, request: &'a MoverRequest, job: Value) -> Self {
        let (sender, lines) = mpsc::channel(64);
        let log =
            Log { sender: Some(sender), lines, ended: CancellationToken::new(), readers: JoinSet::new() };
        Self {
            jobs,
            request,
            patience: Patience {
                prepare: movers.settings.prepare_timeout,
                node: movers.settings.node_timeout,
            },
            clock: movers.core.clock.clone(),
            look: movers.look,
            name: job::name(&request.job.task),
            job: Some(job),
            pod: None,
            had_pod: false,
            was_assigned: false,
            node: None,
            node_name: None,
            warning: None,
            surroundings_read: None,
            stuck: None,
            reported: String::new(),
            ending: None,
            log,
        }
    }

    pub(super) async fn run(
        mut self,
        observer: &dyn MoverObserver,
        cancel: &CancellationToken,
        shutdown: &CancellationToken,
    ) -> Result<MoverEnd, ApiError> {
        let mut changes = std::pin::pin!(self.jobs.pod_changes(&self.name).default_backoff());
        loop {
            if shutdown.is_cancelled() {
                return Ok(MoverEnd::Left);
            }
            match self.judge().await {
                Ok(verdict) => {
                    if let Some(ended) = self.act(verdict, observer).await {
                        return Ok(ended);
                    }
                }
                // The mover keeps running while the API server has problems.
                Err(error) if error.is_transient() => {
                    let error = error.chain();
                    tracing::debug!(
                        mover = self.name,
                        error,
                        "cannot read the state of a mover; trying again"
                    );
                }
                Err(error) => return Err(error),
            }
            let overdue = self.ending.is_some_and(|until| Instant::now() > until);
            if overdue || cancel.is_cancelled() && self.ending.is_none() && self.end().await {
                return Ok(MoverEnd::Cancelled { dead_owner: None, is_over: !overdue });
            }
            self.wait(&mut changes, observer, cancel, shutdown).await;
        }
    }

    /// Reads the Job, the pod and their surroundings, and judges them.
    async fn judge(&mut self) -> Result<Verdict, ApiError> {
        self.pod = self.jobs.pod(&self.name).await?;
        self.had_pod |= self.pod.is_some();
        if self.pod.is_none() {
            self.job = self.jobs.get(&self.name).await?;
            // The pod may have been created between the two reads, or deleted with its Job.
            if self.job.is_some() {
                self.pod = self.jobs.pod(&self.name).await?;
                self.had_pod |= self.pod.is_some();
            }
        }
        self.was_assigned |= self.pod.as_ref().is_some_and(is_assigned);
        self.read_surroundings().await?;
        let now = self.clock.now();
        let reason = self.pod.as_ref().and_then(stuck);
        self.stuck = reason.map(|reason| match self.stuck {
            Some((before, since)) if before == reason => (reason, since),
            _ => (reason, now),
        });
        let node = match (&self.node_name, &self.node) {
            (None, _) => NodeSeen::Unknown,
            (Some(_), None) => NodeSeen::Gone,
            (Some(_), Some(node)) => NodeSeen::There(node),
        };
        let seen = MoverFacts {
            job: self.job.as_ref(),
            pod: self.pod.as_ref(),
            had_pod: self.had_pod,
            node,
            warning: self.warning.as_ref(),
            stuck_since: self.stuck.map(|(_, since)| since),
        };
        Ok(verdict(&seen, &self.patience, now))
    }

    /// Reads the node and the events, if `SURROUNDINGS` has passed since the last time.
    async fn read_surroundings(&mut self) -> Result<(), ApiError> {
        let name = self.pod.as_ref().and_then(|pod| pod["spec"]["nodeName"].as_str());
        let name = name.or(self.request.job.place.node()).map(str::to_owned);
        let fresh = self.surroundings_read.is_some_and(|at| at.elapsed() < SURROUNDINGS.min(self.look * 5));
        if fresh && name == self.node_name {
            return Ok(());
        }
        if let Some(name) = &name {
            self.node = self.jobs.node(name).await?;
        }
        self.node_name = name;
        let about =
            self.pod.as_ref().or(self.job.as_ref()).and_then(|object| object["metadata"]["uid"].as_str());
        self.warning = match about {
            Some(uid) if self.log.sender.is_some() => self.jobs.warning(uid).await?,
            _ => None,
        };
        self.surroundings_read = Some(Instant::now());
        Ok(())
    }

    async fn act(&mut self, verdict: Verdict, observer: &dyn MoverObserver) -> Option<MoverEnd> {
        match verdict {
            Verdict::Preparing(message) => {
                if message != self.reported && self.ending.is_none() {
                    if matches!(self.stuck, Some((Stuck::Pull | Stuck::NoImage, _))) {
                        observer.without_image().await;
                    }
                    observer.preparing(&message).await;
                    self.reported = message;
                }
                None
            }
            Verdict::Running { node } => {
                if let Some(sender) = self.log.sender.take() {
                    self.read_log(sender);
                    observer.running(&node).await;
                }
                None
            }
            Verdict::Ended { message, death } => {
                self.last_lines(observer).await;
                Some(self.conclude(&message, death))
            }
            Verdict::Dead(dead) if self.ending.is_some() => Some(self.cancelled(dead)),
            Verdict::Dead(dead) => Some(MoverEnd::Died(self.death(dead))),
        }
    }

    fn conclude(&self, message: &str, mut death: Dead) -> MoverEnd {
        let task = &self.request.job.task;
        let result = serde_json::from_str::<TaskResult>(message).ok().filter(|result| *task == *result.uid);
        let Some(result) = result else {
            if self.ending.is_some() {
                return self.cancelled(death);
            }
            if !message.trim().is_empty() && death.cause == DeathCause::Killed {
                let begin: String = message.trim().chars().take(200).collect();
                death.message =
                    format!("{}; instead of a result of this task it left: {begin}", death.message);
            }
            return MoverEnd::Died(self.death(death));
        };
        let stopped = matches!(&result.outcome, Outcome::Failed(Failure { cause: Cause::Stopped, .. }));
        if !stopped {
            return self.reported(result, death);
        }
        // If the caller cancelled the mover, the caller knows the reason; otherwise the death has one.
        match death.cause {
            _ if self.ending.is_some() => self.cancelled(death),
            DeathCause::Evicted | DeathCause::Deadline | DeathCause::Deleted => {
                MoverEnd::Died(self.death(death))
            }
            _ => self.reported(result, death),
        }
    }

    fn reported(&self, result: TaskResult, dead: Dead) -> MoverEnd {
        MoverEnd::Reported { result, dead_owner: self.death(dead).dead_owner }
    }

    /// The mover ended because it was cancelled. A mover that had to be killed may have left locks.
    fn cancelled(&self, dead: Dead) -> MoverEnd {
        let is_over = dead.reported || !self.was_assigned;
        MoverEnd::Cancelled { dead_owner: self.death(dead).dead_owner, is_over }
    }

    fn death(&self, dead: Dead) -> Death {
        let pod = self.pod.as_ref().and_then(|pod| pod["metadata"]["uid"].as_str());
        let cluster = &self.request.task.lock.cluster;
        Death::new(dead, pod.map(|pod| format!("{cluster}/{pod}")))
    }

    /// Stops the mover; true if there is no pod left to wait for.
    async fn end(&mut self) -> bool {
        match self.stop().await {
            Ok(is_over) => {
                let grace = Duration::from_secs(GRACE_SECONDS.into());
                self.ending = Some(Instant::now() + grace + BEYOND_GRACE);
                is_over
            }
            Err(error) => {
                tracing::warn!(mover = self.name, error = error.chain(), "cannot stop a mover; trying again");
                sleep(self.look).await;
                false
            }
        }
    }

    /// Deletes the pod, or the Job that has none. A pod that was not seen running is waited for, too: its container may
    /// have started without the kubelet having reported it, and would go on reading and writing.
    async fn stop(&mut self) -> Result<bool, ApiError> {
        if self.pod.is_none() {
            self.jobs.delete(&self.name).await?;
            self.pod = self.jobs.pod(&self.name).await?;
        }
        let Some(pod) = &self.pod else { return Ok(true) };
        self.was_assigned |= is_assigned(pod);
        self.jobs.end_pod(pod, GRACE_SECONDS).await?;
        Ok(false)
    }

    /// Waits until the pod changes, the next poll is due, or the mover is cancelled. Passes on the lines that the
    /// mover prints.
    async fn wait(
        &mut self,
        changes: &mut (impl Stream<Item = Result<watcher::Event<Pod>, watcher::Error>> + Unpin),
        observer: &dyn MoverObserver,
        cancel: &CancellationToken,
        shutdown: &CancellationToken,
    ) {
        let until = Instant::now() + self.look;
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = cancel.cancelled(), if self.ending.is_none() => return,
                change = changes.next() => {
                    if let Some(Ok(watcher::Event::Apply(_) | watcher::Event::Delete(_))) = change {
                        return;
                    }
                }
                Some(line) = self.log.lines.recv() => pass_on(&line, observer).await,
                () = sleep_until(until) => return,
            }
        }
    }

    /// Whether the mover prints what it was asked for.
    fn prints_result(&self) -> bool {
        self.request.task.parts.iter().any(|part| matches!(part.work, TaskWork::Look(_)))
    }

    fn read_log(&mut self, sender: mpsc::Sender<String>) {
        let pod = self.pod.as_ref().and_then(|pod| pod["metadata"]["name"].as_str());
        let (jobs, pod) = (self.jobs.clone(), pod.unwrap_or_default().to_owned());
        let ended = self.log.ended.clone();
        self.log.readers.spawn(async move { jobs.follow_logs(&pod, CONTAINER, &sender, &ended).await });
    }

    async fn last_lines(&mut self, observer: &dyn MoverObserver) {
        // The mover may have ended before it was seen running. Lines of progress are not needed then.
        let is_result = self.prints_result();
        if let Some(sender) = self.log.sender.take_if(|_| is_result) {
            self.read_log(sender);
        }
        self.log.ended.cancel();
        if self.log.sender.is_some() {
            return;
        }
        let until = Instant::now() + LAST_LINES;
        while let Ok(Some(line)) = timeout_at(until, self.log.lines.recv()).await {
            pass_on(&line, observer).await;
        }
    }
}

/// Whether a pod has a node, so that its container may run.
fn is_assigned(pod: &Value) -> bool {
    pod["spec"]["nodeName"].as_str().is_some_and(|name| !name.is_empty())
}

/// Passes on a line of the protocol; any other line is only for readers of the pod's log.
async fn pass_on(line: &str, observer: &dyn MoverObserver) {
    if let Ok(line) = serde_json::from_str::<LogLine>(line) {
        observer.line(&line).await;
    }
}
