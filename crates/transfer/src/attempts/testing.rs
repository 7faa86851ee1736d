//! For tests: hands that end movers as a test says, and note what they are asked.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use jiff::Timestamp;
use lifeboat_cluster::ApiError;
use lifeboat_mover::report::{BackedUp, Cause, Failure, Outcome, Restored, TaskResult};
use lifeboat_mover::task::{RepositoryAccess, Transport, Work};
use lifeboat_plan::pod_volumes::status::Snapshot;
use lifeboat_transfer::movers::{Assignment, Death, DeathCause, Ended, Watcher};
use lifeboat_transfer::repositories::{Key, Keys, RepositoryProblem};
use tokio_util::sync::CancellationToken;

use super::{Hands, Made, Reach, Unusable};
use crate::repositories::RepositoryKey;

#[derive(Default)]
pub(crate) struct Fake {
    /// How the next movers end.
    ends: Mutex<VecDeque<Ended>>,
    /// Whether a mover of which nothing is said does its work well; else it is left alone.
    pub(crate) well: AtomicBool,
    /// Called while a mover runs.
    look: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
    /// The snapshots in the repository, by task.
    made: Mutex<BTreeMap<String, String>>,
    /// Why the repository cannot be used, and whether that may pass.
    pub(crate) unusable: Mutex<Option<(String, bool)>>,
    /// Whether nobody can tell what it holds.
    pub(crate) mute: AtomicBool,
    /// Whether the mover is told to end at the moment at which it ends.
    pub(crate) late: AtomicBool,
    calls: Mutex<Vec<String>>,
    pub(crate) assignments: Mutex<Vec<Assignment>>,
}

impl Fake {
    pub(crate) fn will(&self, end: Ended) {
        self.ends.lock().unwrap().push_back(end);
    }

    pub(crate) fn holds(&self, task: &str, snapshot: &str) {
        self.made.lock().unwrap().insert(task.to_owned(), snapshot.to_owned());
    }

    pub(crate) fn meanwhile(&self, look: impl Fn() + Send + Sync + 'static) {
        *self.look.lock().unwrap() = Some(Box::new(look));
    }

    fn note(&self, words: String) {
        self.calls.lock().unwrap().push(words);
    }

    pub(crate) fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }

    /// Those that begin with a word.
    pub(crate) fn calls_to(&self, word: &str) -> Vec<String> {
        self.calls().into_iter().filter(|call| call.starts_with(word)).collect()
    }

    /// A mover that does its work.
    fn succeed(&self, assignment: &Assignment) -> Ended {
        let uid = &assignment.task.uid;
        told(match assignment.task.work {
            Work::Backup(_) => {
                let snapshot = format!("snapshot-{uid}");
                self.holds(uid, &snapshot);
                Outcome::BackedUp(BackedUp { snapshot, bytes: 10, bytes_added: 4, ..BackedUp::default() })
            }
            _ => Outcome::Restored(Restored { bytes: 10, verified: true, ..Restored::default() }),
        })
    }
}

pub(crate) fn told(outcome: Outcome) -> Ended {
    let result = TaskResult { version: 1, uid: "of-the-task".into(), outcome };
    Ended::Told { result, dead_owner: Some("cluster/mover-pod".into()) }
}

pub(crate) fn fails(message: &str) -> Ended {
    told(Outcome::Failed(Failure { cause: Cause::Source, message: message.to_owned() }))
}

/// Killed, and the kubelet said so.
pub(crate) fn died(may_retry: bool) -> Ended {
    Ended::Died(Death {
        cause: DeathCause::Killed,
        words: "the mover was killed".into(),
        dead_owner: Some("cluster/mover-pod".into()),
        may_retry,
    })
}

/// On a node of which nobody knows whether it still works.
pub(crate) fn lost() -> Ended {
    Ended::Died(Death {
        cause: DeathCause::NodeLost,
        words: "node a is lost".into(),
        dead_owner: None,
        may_retry: true,
    })
}

/// Told to end, and killed because it did not.
pub(crate) fn killed_when_cancelled() -> Ended {
    Ended::Cancelled { dead_owner: Some("cluster/mover-pod".into()), is_over: true }
}

/// Nothing opens the repository of a test.
struct NoKeys;

#[async_trait]
impl Keys for NoKeys {
    async fn read(&self) -> Result<Key, RepositoryProblem> {
        Err(RepositoryProblem::Unusable("there is no repository".to_owned()))
    }
}

#[async_trait]
impl Hands for Fake {
    async fn reach(&self, key: &RepositoryKey, make: bool) -> Result<Reach, Unusable> {
        self.note(format!("reach {key}{}", if make { " or make" } else { "" }));
        if let Some((words, may_pass)) = self.unusable.lock().unwrap().clone() {
            return Err(Unusable { words, may_pass });
        }
        let transport = Transport::Gateway { url: String::new(), token: String::new(), ca: None };
        Ok(Reach {
            identifier: "s3:there".to_owned(),
            task: RepositoryAccess { transport, passwords: Vec::new() },
            keys: Arc::new(NoKeys),
            cluster: "cluster".to_owned(),
        })
    }

    async fn made(&self, _: &RepositoryKey, task: &str) -> Result<Option<Made>, Unusable> {
        if self.mute.load(Ordering::Relaxed) {
            return Err(Unusable { words: "storage is away".into(), may_pass: false });
        }
        let found = self.made.lock().unwrap().get(task).cloned();
        Ok(found.map(|id| Made { snapshot: Snapshot { id, bytes: 5, ..Snapshot::default() }, end: None }))
    }

    async fn forget(&self, key: &RepositoryKey, snapshots: &[String]) -> Result<(), String> {
        self.note(format!("forget {} {}", key.name(), snapshots.join(",")));
        Ok(())
    }

    async fn drop_reports(&self, _: &RepositoryKey, _: &[String]) {}

    async fn carry_out(
        &self,
        assignment: Assignment,
        watcher: &dyn Watcher,
        cancel: &CancellationToken,
    ) -> Result<Ended, ApiError> {
        self.note(format!("send {}", assignment.errand.uid));
        watcher.queued("3 are before it").await;
        watcher.running("a").await;
        if let Some(look) = self.look.lock().unwrap().as_ref() {
            look();
        }
        if self.late.load(Ordering::Relaxed) {
            cancel.cancel();
        }
        let end = self.ends.lock().unwrap().pop_front();
        let end = end.unwrap_or_else(|| {
            if self.well.load(Ordering::Relaxed) { self.succeed(&assignment) } else { Ended::Left }
        });
        self.assignments.lock().unwrap().push(assignment);
        Ok(end)
    }

    async fn clear(&self, task: &str) -> Result<(), ApiError> {
        self.note(format!("clear {task}"));
        Ok(())
    }

    async fn give_up(&self, _: &RepositoryKey, task: &str, _: Timestamp) {
        self.note(format!("give up {task}"));
    }

    async fn unlock(&self, _: &RepositoryKey, owner: &str) {
        self.note(format!("unlock {owner}"));
    }
}
