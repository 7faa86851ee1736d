//! For tests: effects that end movers as the test asks and record their calls.
#![allow(clippy::unwrap_used)] // tests end by panicking

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use jiff::Timestamp;
use lifeboat_api::common::TaskId;
use lifeboat_cluster::ApiError;
use lifeboat_mover::report::{
    BackedUp, Cause, Failure, Outcome, PartResult, PartResults, Restored, TaskResult,
};
use lifeboat_mover::task::{Part, RepositoryAccess, TaskWork, Transport};
use lifeboat_plan::transfer::attempts::Snapshot;
use lifeboat_repository::Retry;
use tokio_util::sync::CancellationToken;

use super::{Effects, Reach, Stored, Unusable};
use crate::movers::{Death, DeathCause, MoverEnd, MoverObserver, MoverRequest};
use crate::repositories::{Key, Keys, RepositoryKey, RepositoryProblem};

#[derive(Default)]
pub struct FakeEffects {
    /// How the next movers end.
    ends: Mutex<VecDeque<MoverEnd>>,
    /// Whether a mover without an end in `ends` succeeds; otherwise it ends as [`MoverEnd::Left`].
    pub well: AtomicBool,
    /// Called while a mover runs.
    look: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
    /// The snapshots in the repository, by task.
    made: Mutex<BTreeMap<String, String>>,
    /// Why the repository cannot be used, and whether the problem may go away.
    pub unusable: Mutex<Option<(String, bool)>>,
    /// Whether storage fails when it is asked which snapshots the repository holds.
    pub mute: AtomicBool,
    /// Whether movers run until they are cancelled.
    pub until_cancelled: AtomicBool,
    /// Whether movers that restore report that they failed.
    pub restores_fail: AtomicBool,
    /// Whether the mover is cancelled at the moment when it ends.
    pub late: AtomicBool,
    calls: Mutex<Vec<String>>,
    /// The namespaces in which movers were cleared.
    pub cleared_in: Mutex<Vec<String>>,
    pub requests: Mutex<Vec<MoverRequest>>,
}

impl FakeEffects {
    pub fn will(&self, end: MoverEnd) {
        self.ends.lock().unwrap().push_back(end);
    }

    pub fn holds(&self, task: &str, snapshot: &str) {
        self.made.lock().unwrap().insert(task.to_owned(), snapshot.to_owned());
    }

    pub fn meanwhile(&self, look: impl Fn() + Send + Sync + 'static) {
        *self.look.lock().unwrap() = Some(Box::new(look));
    }

    fn note(&self, call: String) {
        self.calls.lock().unwrap().push(call);
    }

    pub fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }

    /// The calls that begin with this word.
    pub fn calls_to(&self, word: &str) -> Vec<String> {
        self.calls().into_iter().filter(|call| call.starts_with(word)).collect()
    }

    /// A mover that succeeds.
    fn succeed(&self, request: &MoverRequest) -> MoverEnd {
        let task = &request.task;
        reported(match &*task.parts {
            [part] if part.uid == task.uid => self.part_done(part),
            parts => {
                let done = |part: &Part| PartResult { uid: part.uid.clone(), outcome: self.part_done(part) };
                let parts = parts.iter().map(done).collect();
                Outcome::Parts(PartResults { parts, ..PartResults::default() })
            }
        })
    }

    fn part_done(&self, part: &Part) -> Outcome {
        match part.work {
            TaskWork::Backup(_) => {
                let snapshot = format!("snapshot-{}", part.uid);
                self.holds(&part.uid, &snapshot);
                Outcome::BackedUp(BackedUp { snapshot, bytes: 10, bytes_added: 4, ..BackedUp::default() })
            }
            TaskWork::Restore(_) if self.restores_fail.load(Ordering::Relaxed) => {
                let message = "no space left on device".to_owned();
                Outcome::Failed(Failure { cause: Cause::Target, message })
            }
            _ => Outcome::Restored(Restored { bytes: 10, verified: true, ..Restored::default() }),
        }
    }
}

pub fn reported(outcome: Outcome) -> MoverEnd {
    let result = TaskResult::new("of-the-task", outcome);
    MoverEnd::Reported { result, dead_owner: Some("cluster/mover-pod".into()) }
}

pub fn fails(message: &str) -> MoverEnd {
    reported(Outcome::Failed(Failure { cause: Cause::Source, message: message.to_owned() }))
}

/// A mover that was killed, as the kubelet reported.
pub fn died(may_retry: bool) -> MoverEnd {
    MoverEnd::Died(Death {
        cause: DeathCause::Killed,
        message: "the mover was killed".into(),
        dead_owner: Some("cluster/mover-pod".into()),
        may_retry,
    })
}

/// A mover on a node that does not answer: it may still run.
pub fn lost() -> MoverEnd {
    MoverEnd::Died(Death {
        cause: DeathCause::NodeLost,
        message: "node a is lost".into(),
        dead_owner: None,
        may_retry: true,
    })
}

/// A mover that was cancelled, and killed because it did not stop.
pub fn killed_when_cancelled() -> MoverEnd {
    MoverEnd::Cancelled { dead_owner: Some("cluster/mover-pod".into()), is_over: true }
}

/// No key: a test opens no repository.
struct NoKeys;

#[async_trait]
impl Keys for NoKeys {
    async fn read(&self) -> Result<Key, RepositoryProblem> {
        Err(RepositoryProblem::Unusable("there is no repository".to_owned()))
    }
}

#[async_trait]
impl Effects for FakeEffects {
    async fn reach(&self, key: &RepositoryKey, make: bool) -> Result<Reach, Unusable> {
        self.note(format!("reach {key}{}", if make { " or make" } else { "" }));
        if let Some((message, may_pass)) = self.unusable.lock().unwrap().clone() {
            let retry = if may_pass { Retry::Later } else { Retry::Never };
            return Err(Unusable { message, retry });
        }
        let transport = Transport::Gateway { url: String::new(), token: String::new(), ca: None };
        Ok(Reach {
            identifier: "s3:there".to_owned(),
            task: RepositoryAccess { transport, passwords: Vec::new(), guarded: false },
            keys: Arc::new(NoKeys),
            cluster: "cluster".to_owned(),
        })
    }

    async fn stored(&self, _: &RepositoryKey, task: &TaskId) -> Result<Vec<Stored>, Unusable> {
        if self.mute.load(Ordering::Relaxed) {
            return Err(Unusable { message: "storage is away".into(), retry: Retry::Never });
        }
        let made = self.made.lock().unwrap();
        let is_part = |uid: &str| {
            uid.strip_prefix(task.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let found = made.iter().filter(|(uid, _)| is_part(uid));
        let stored = found.map(|(part, id)| {
            let snapshot = Snapshot { id: id.clone(), bytes: 5, ..Snapshot::default() };
            Stored { part: part.clone(), snapshot, end: None }
        });
        Ok(stored.collect())
    }

    async fn forget(&self, key: &RepositoryKey, snapshots: &[String]) -> Result<(), RepositoryProblem> {
        self.note(format!("forget {} {}", key.name(), snapshots.join(",")));
        Ok(())
    }

    async fn drop_reports(&self, _: &RepositoryKey, _: &str, _: &[TaskId]) {}

    async fn carry_out(
        &self,
        request: MoverRequest,
        observer: &dyn MoverObserver,
        cancel: &CancellationToken,
    ) -> Result<MoverEnd, ApiError> {
        self.note(format!("send {}", request.job.task));
        observer.queued("3 are before it").await;
        observer.running("a").await;
        if let Some(look) = self.look.lock().unwrap().as_ref() {
            look();
        }
        if self.late.load(Ordering::Relaxed) {
            cancel.cancel();
        }
        if self.until_cancelled.load(Ordering::Relaxed) {
            cancel.cancelled().await;
            self.requests.lock().unwrap().push(request);
            return Ok(killed_when_cancelled());
        }
        let end = self.ends.lock().unwrap().pop_front();
        let end = end.unwrap_or_else(|| {
            if self.well.load(Ordering::Relaxed) { self.succeed(&request) } else { MoverEnd::Left }
        });
        self.requests.lock().unwrap().push(request);
        Ok(end)
    }

    async fn clear(&self, namespace: &str, task: &TaskId) -> Result<(), ApiError> {
        self.cleared_in.lock().unwrap().push(namespace.to_owned());
        self.note(format!("clear {task}"));
        Ok(())
    }

    async fn give_up(&self, _: &RepositoryKey, task: &TaskId, _: Timestamp) {
        self.note(format!("give up {task}"));
    }

    async fn unlock(&self, _: &RepositoryKey, owner: &str) {
        self.note(format!("unlock {owner}"));
    }
}
