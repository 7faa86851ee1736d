//! Drives the queue of movers, whose order crate `plan` decides. A mover that has a turn runs until the turn is
//! dropped. Jobs that already run when a term begins are counted from its start until their objects adopt them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lifeboat_api::common::TaskId;
use lifeboat_cluster::ApiError;
use lifeboat_control::locked;
use lifeboat_plan::transfer::movers::job;
use lifeboat_plan::transfer::movers::queue::{Candidate, Limits, Queue};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::metrics::MoverMetrics;
use super::{MoverObserver, Movers};
use crate::settings::MoverSettings;

/// How often a waiting mover is informed about the queue: hundreds may wait.
const REPORT: Duration = Duration::from_secs(10);

/// The queue: which movers wait and which run. Clones share it.
#[derive(Clone)]
pub(super) struct MoverQueue {
    state: Arc<Mutex<State>>,
    news: Arc<watch::Sender<()>>,
    /// Whether the running Jobs were counted in this term.
    counted: Arc<tokio::sync::Mutex<bool>>,
}

struct State {
    queue: Queue,
    /// Running movers that were not adopted yet.
    held: BTreeSet<TaskId>,
}

impl Default for MoverQueue {
    fn default() -> Self {
        let queue = Queue::new(Limits { total: 1, on_node: 1, on_repository: 1 });
        Self {
            state: Arc::new(Mutex::new(State { queue, held: BTreeSet::new() })),
            news: Arc::new(watch::Sender::new(())),
            counted: Arc::default(),
        }
    }
}

/// How waiting for a turn ended.
pub(super) enum Waited {
    Turn(Turn),
    Cancelled,
    Left,
    Late,
}

/// What ends the wait for a turn.
#[derive(Clone, Copy)]
pub(super) struct Ends<'a> {
    pub(super) cancel: &'a CancellationToken,
    pub(super) shutdown: &'a CancellationToken,
    pub(super) until: Option<Instant>,
}

/// A running mover's turn, a reserved place, or a place in the queue; given back when dropped.
pub(super) struct Turn {
    queue: MoverQueue,
    metrics: MoverMetrics,
    task: TaskId,
}

impl Turn {
    /// Records the node that the scheduler chose: the mover counts towards that node's limit.
    pub(super) fn settle(&self, node: &str) {
        self.queue.change(&self.metrics, |state| {
            state.queue.settle(&self.task, node);
            state.queue.park(&self.task, false);
        });
    }

    /// The mover waits for an image that cannot be pulled: others need not wait for it.
    pub(super) fn park(&self) {
        self.queue.change(&self.metrics, |state| state.queue.park(&self.task, true));
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.queue.change(&self.metrics, |state| state.queue.leave(&self.task));
    }
}

impl MoverQueue {
    /// Changes the queue, starts all movers that may start now, and wakes those that wait.
    fn change(&self, metrics: &MoverMetrics, change: impl FnOnce(&mut State)) {
        let mut state = locked(&self.state);
        change(&mut state);
        state.queue.start();
        metrics.set(state.queue.running(), state.queue.waiting());
        drop(state);
        self.news.send_replace(());
    }

    /// Forgets what was counted in an earlier term.
    pub(super) fn begin_term(&self) {
        if let Ok(mut counted) = self.counted.try_lock() {
            *counted = false;
        }
        let mut state = locked(&self.state);
        for task in std::mem::take(&mut state.held) {
            state.queue.leave(&task);
        }
    }

    /// Gives a turn to a mover whose Job exists already.
    pub(super) fn adopt(&self, metrics: &MoverMetrics, candidate: Candidate) -> Turn {
        let task = candidate.task.clone();
        self.change(metrics, |state| {
            state.held.remove(&candidate.task);
            state.queue.adopt(candidate);
        });
        Turn { queue: self.clone(), metrics: metrics.clone(), task }
    }

    /// Whether this task waits for its turn.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn has_waiting(&self, task: &TaskId) -> bool {
        locked(&self.state).queue.message(task).is_some()
    }

    /// Waits for a turn; the observer is informed what the mover waits for.
    pub(super) async fn wait(
        &self,
        metrics: &MoverMetrics,
        candidate: Candidate,
        observer: &dyn MoverObserver,
        ends: Ends<'_>,
    ) -> Waited {
        let mut news = self.news.subscribe();
        let task = candidate.task.clone();
        // From here on the place is given back also if the caller is dropped.
        let turn = Turn { queue: self.clone(), metrics: metrics.clone(), task: task.clone() };
        self.change(metrics, |state| {
            // The mover was counted as running, and its Job is gone since.
            if state.held.remove(&task) {
                state.queue.leave(&task);
            }
            state.queue.arrive(candidate);
        });
        let (mut reported, mut report_at) = (String::new(), Instant::now());
        loop {
            news.mark_unchanged();
            let message = {
                let state = locked(&self.state);
                if state.queue.is_running(&task) {
                    return Waited::Turn(turn);
                }
                (Instant::now() >= report_at).then(|| state.queue.message(&task).unwrap_or_default())
            };
            if let Some(message) = message {
                if message != reported {
                    observer.queued(&message).await;
                    reported = message;
                }
                report_at = Instant::now() + REPORT;
            }
            let late = async {
                match ends.until {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = ends.cancel.cancelled() => return Waited::Cancelled,
                () = ends.shutdown.cancelled() => return Waited::Left,
                () = late => return Waited::Late,
                _ = news.changed() => {}
                () = sleep_until(report_at) => {}
            }
        }
    }
}

fn limits(settings: &MoverSettings) -> Limits {
    Limits {
        total: settings.at_once,
        on_node: settings.at_once_on_node,
        on_repository: settings.at_once_on_repository,
    }
}

impl Movers {
    /// Counts the running Jobs, once per term, so that the limits hold across restarts of the server.
    pub(super) async fn count_running(&self) -> Result<(), ApiError> {
        let mut counted = self.queue.counted.lock().await;
        if *counted {
            return Ok(());
        }
        let running = self.running().await?;
        self.queue.change(&self.metrics, |state| {
            state.queue.set_limits(limits(&self.settings));
            for candidate in running {
                if !state.queue.is_running(&candidate.task) {
                    state.held.insert(candidate.task.clone());
                    state.queue.adopt(candidate);
                }
            }
        });
        *counted = true;
        Ok(())
    }

    /// Removes movers that ended without being adopted from the count.
    pub(super) async fn recount(&self) -> Result<(), ApiError> {
        if locked(&self.queue.state).held.is_empty() {
            return Ok(());
        }
        let running: BTreeSet<_> =
            self.running().await?.into_iter().map(|candidate| candidate.task).collect();
        self.queue.change(&self.metrics, |state| {
            let ended: Vec<_> = state.held.difference(&running).cloned().collect();
            for task in ended {
                state.held.remove(&task);
                state.queue.leave(&task);
            }
        });
        Ok(())
    }

    /// The movers whose Jobs have not ended.
    pub(super) async fn running(&self) -> Result<Vec<Candidate>, ApiError> {
        let mut running = Vec::new();
        for found in self.found_jobs().await?.jobs {
            let made = job::read(&found).filter(|made| !made.finished);
            if let Some(made) = made
                && self.is_ours(&found).await?
            {
                running.push(made.candidate);
            }
        }
        Ok(running)
    }
}
