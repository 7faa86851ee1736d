//! Running movers: the one way from an errand to a Job, its progress and its end. Controllers of volumes call
//! [`Movers::carry_out`], which waits for a turn, makes the Job or adopts the one that is there, follows it and says how
//! it ended; and [`Movers::clear`] once they have recorded that. Nothing here knows what the data is for.
//!
//! Job and Secret are named by the task's UID. So whoever is interrupted at any point calls again with the same task and
//! finds what is there: nothing, a Secret without its Job, a Job that runs, a Job that ended.

mod follow;
mod make;
mod sweep;
#[cfg(test)]
mod tests;
mod turn;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lifeboat_cluster::ApiError;
use lifeboat_cluster::jobs::Jobs;
use lifeboat_control::{Core, locked};
use lifeboat_mover::report::{Line, Outcome, TaskResult};
use lifeboat_mover::task::Task;
use lifeboat_plan::movers::queue::Candidate;
use lifeboat_plan::movers::verdict::Dead;
use lifeboat_plan::movers::{Errand, job};
use tokio_util::sync::CancellationToken;

use crate::repositories::Keys;
use crate::settings::MoverSettings;
use follow::Follower;
pub use lifeboat_plan::movers::verdict::DeathCause;
use turn::{Line as Waiting, Waited};

/// How often a mover is looked at where nothing tells of a change.
const LOOK: Duration = Duration::from_secs(2);

/// Hands out turns and runs Jobs. Clones share them.
#[derive(Clone)]
pub struct Movers {
    core: Core,
    settings: Arc<MoverSettings>,
    line: Waiting,
    resting: Arc<Mutex<CancellationToken>>,
    look: Duration,
}

/// An errand with the task that the mover reads.
pub struct Assignment {
    pub errand: Errand,
    pub task: Task,
    pub keys: Arc<dyn Keys>,
}

/// Is told how a mover stands; writes it where people look. Called one after the other.
#[async_trait]
pub trait Watcher: Send + Sync {
    /// It waits for a turn, and why, as in "waits for a turn: 2 movers run on node a (limit 2, --movers-per-node);
    /// 3 are before it".
    async fn queued(&self, words: &str);
    /// Its pod exists, and waits for something: an image, a node with room, a volume.
    async fn preparing(&self, words: &str);
    /// Its container runs.
    async fn running(&self, node: &str);
    /// It said something: progress, a wait for a lock.
    async fn line(&self, line: &Line);
}

/// How a mover ended.
#[derive(Debug)]
pub enum Ended {
    /// It said itself how, well or not. As in [`Death`], `dead_owner` may have left locks, where it could not remove them.
    Told { result: TaskResult, dead_owner: Option<String> },
    /// It ended without a word, or never began.
    Died(Death),
    /// `cancel` was cancelled: the mover was told to end, and has where it `is_over`. As in [`Death`], `dead_owner` may have left
    /// locks.
    Cancelled { dead_owner: Option<String>, is_over: bool },
    /// This server stops leading: the Job goes on, and whoever leads next adopts it.
    Left,
}

/// Why a mover ended without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    pub cause: DeathCause,
    /// For people: what happened and what to do.
    pub words: String,
    /// The owner of its locks, `<cluster>/<pod>`, where the kubelet reported the container's end: they may be removed.
    pub dead_owner: Option<String>,
    /// Whether the same errand may succeed when it is tried again (killed, evicted, node lost), under another UID.
    pub may_retry: bool,
}

impl Death {
    /// `owner` is that of the mover's locks.
    fn new(dead: Dead, owner: Option<String>) -> Self {
        let dead_owner = owner.filter(|_| dead.reported);
        Self { cause: dead.cause, words: dead.words, dead_owner, may_retry: dead.may_retry }
    }
}

impl Movers {
    pub fn new(core: &Core, settings: MoverSettings) -> Self {
        Self {
            core: core.clone(),
            settings: Arc::new(settings),
            line: Waiting::default(),
            resting: Arc::default(),
            look: LOOK,
        }
    }

    /// The Jobs of movers.
    fn jobs(&self) -> Jobs {
        Jobs::new(&self.core.client, &self.settings.namespace)
    }

    /// A term of leadership begins; when `resting` is cancelled, movers are left alone.
    pub fn begin_term(&self, resting: &CancellationToken) {
        *locked(&self.resting) = resting.clone();
        self.line.begin_term();
    }

    /// Runs the errand to its end. `cancel` ends the mover (the user's wish, a timeout); the end of the term leaves it
    /// alone. An error is trouble with the API server: to be called again with the same assignment.
    pub async fn carry_out(
        &self,
        assignment: Assignment,
        watcher: &dyn Watcher,
        cancel: &CancellationToken,
    ) -> Result<Ended, ApiError> {
        let ended = Box::pin(self.run_to_end(assignment, watcher, cancel)).await?;
        self.core.metrics.movers().ended(word(&ended));
        Ok(ended)
    }

    async fn run_to_end(
        &self,
        assignment: Assignment,
        watcher: &dyn Watcher,
        cancel: &CancellationToken,
    ) -> Result<Ended, ApiError> {
        let resting = locked(&self.resting).clone();
        if resting.is_cancelled() {
            return Ok(Ended::Left);
        }
        self.count_running().await?;
        let jobs = self.jobs();
        let (errand, candidate) = (&assignment.errand, Candidate::of(&assignment.errand));
        let (turn, job) = match jobs.get(&job::name(&errand.uid)).await? {
            Some(job) => (self.line.adopt(self.core.metrics.movers(), candidate), job),
            None if cancel.is_cancelled() => return Ok(Ended::Cancelled { dead_owner: None, is_over: true }),
            None => {
                if let Some(refused) = make::refused(&self.settings, errand) {
                    return Ok(Ended::Died(Death::new(refused, None)));
                }
                let turn = match self
                    .line
                    .wait(self.core.metrics.movers(), candidate, watcher, cancel, &resting)
                    .await
                {
                    Waited::Turn(turn) => turn,
                    Waited::Cancelled => return Ok(Ended::Cancelled { dead_owner: None, is_over: true }),
                    Waited::Left => return Ok(Ended::Left),
                };
                match self.make(&jobs, &assignment).await? {
                    Ok(job) => (turn, job),
                    Err(refused) => return Ok(Ended::Died(Death::new(refused, None))),
                }
            }
        };
        self.complete(&jobs, &assignment, &job).await?;
        let settling = Settling { turn: &turn, watcher };
        let follower = Follower::new(&jobs, self, &assignment, job);
        let ended = follower.run(&settling, cancel, &resting).await;
        drop(turn);
        ended
    }

    /// Removes the Job, its pod and its Secret, after the end was recorded.
    pub async fn clear(&self, uid: &str) -> Result<(), ApiError> {
        clear(&self.jobs(), &job::name(uid)).await
    }
}

/// Has a mover counted on the node where it runs.
struct Settling<'a> {
    turn: &'a turn::Turn,
    watcher: &'a dyn Watcher,
}

#[async_trait]
impl Watcher for Settling<'_> {
    async fn queued(&self, words: &str) {
        self.watcher.queued(words).await;
    }

    async fn preparing(&self, words: &str) {
        self.watcher.preparing(words).await;
    }

    async fn running(&self, node: &str) {
        self.turn.settle(node);
        self.watcher.running(node).await;
    }

    async fn line(&self, line: &Line) {
        self.watcher.line(line).await;
    }
}

async fn clear(jobs: &Jobs, name: &str) -> Result<(), ApiError> {
    jobs.delete(name).await?;
    // It would go with its Job, unless it never got to know it.
    jobs.delete_secret(name).await
}

/// How a mover ended, for metrics.
fn word(ended: &Ended) -> &'static str {
    match ended {
        Ended::Told { result, .. } if matches!(result.outcome, Outcome::Failed(_)) => "failed",
        Ended::Told { .. } => "done",
        Ended::Cancelled { .. } => "cancelled",
        Ended::Left => "left",
        Ended::Died(death) => match death.cause {
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
