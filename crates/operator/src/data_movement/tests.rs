//! Data movements with hands of a few lines: the cluster is kept in memory, the mover ends as it is told to.

mod downloads;
mod uploads;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lifeboat_cluster::ApiError;
use lifeboat_mover::report::{BackedUp, Cause, Failure, Outcome, Restored, TaskResult};
use lifeboat_mover::task::{RepositoryAccess, Task, Transport, Work};
use lifeboat_plan::movers::Place as Where;
use lifeboat_plan::pod_volumes::status::Snapshot;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::backup::world::World;
use crate::context::Context;
use crate::movers::{Assignment, Death, DeathCause, Ended, Watcher};
use crate::pod_volumes::{Desk, Hands, Made, Reach, Unusable};
use crate::testing::settings;

/// How a mover ends.
enum End {
    Well,
    Fails(&'static str),
    Dies { may_retry: bool },
    Cancelled,
}

type Look = Box<dyn Fn(&World) + Send + Sync>;

/// Hands that write down what they are asked for.
#[derive(Default)]
struct Fake {
    ends: Mutex<VecDeque<End>>,
    /// Called while a mover runs.
    look: Mutex<Option<Look>>,
    world: World,
    assigned: Mutex<Vec<(Task, Where)>>,
    made: Mutex<BTreeMap<String, String>>,
    log: Mutex<Vec<String>>,
}

#[async_trait]
impl Hands for Fake {
    async fn reach(&self, _location: &str, _namespace: &str, _make: bool) -> Result<Reach, Unusable> {
        let transport = Transport::Gateway { url: "http://gateway".into(), token: "t".into(), ca: None };
        Ok(Reach {
            identifier: "s3:somewhere".into(),
            task: RepositoryAccess { transport, passwords: Vec::new() },
            files: BTreeMap::new(),
            cluster: "cluster".into(),
        })
    }

    async fn made(&self, _location: &str, _namespace: &str, task: &str) -> Result<Option<Made>, Unusable> {
        let made = self.made.lock().unwrap().get(task).cloned();
        Ok(made.map(|id| Made { snapshot: Snapshot { id, bytes: 10, ..Snapshot::default() }, end: None }))
    }

    async fn forget(&self, _location: &str, _namespace: &str, snapshots: &[String]) -> Result<(), String> {
        self.log.lock().unwrap().push(format!("forget {}", snapshots.join(",")));
        Ok(())
    }

    async fn carry_out(
        &self,
        assignment: Assignment,
        watcher: &dyn Watcher,
        _cancel: &CancellationToken,
    ) -> Result<Ended, ApiError> {
        let Assignment { errand, task, .. } = assignment;
        watcher.running("node-a").await;
        if let Some(look) = self.look.lock().unwrap().as_ref() {
            look(&self.world);
        }
        let uid = task.uid.clone();
        let backup = matches!(task.work, Work::Backup(_));
        self.assigned.lock().unwrap().push((task, errand.place));
        let told = |outcome| Ended::Told(TaskResult { version: 1, uid: uid.clone(), outcome });
        Ok(match self.ends.lock().unwrap().pop_front().unwrap_or(End::Well) {
            End::Well if backup => {
                self.made.lock().unwrap().insert(uid.clone(), format!("snapshot-{uid}"));
                let snapshot = format!("snapshot-{uid}");
                told(Outcome::BackedUp(BackedUp {
                    snapshot,
                    bytes: 10,
                    bytes_added: 4,
                    ..BackedUp::default()
                }))
            }
            End::Well => {
                told(Outcome::Restored(Restored { bytes: 10, verified: true, ..Restored::default() }))
            }
            End::Fails(words) => {
                told(Outcome::Failed(Failure { cause: Cause::Source, message: words.to_owned() }))
            }
            End::Dies { may_retry } => Ended::Died(Death {
                cause: DeathCause::Killed,
                words: "the mover was killed".into(),
                dead_owner: Some("cluster/pod".into()),
                may_retry,
            }),
            End::Cancelled => Ended::Cancelled,
        })
    }

    async fn clear(&self, task: &str) -> Result<(), ApiError> {
        self.log.lock().unwrap().push(format!("clear {task}"));
        Ok(())
    }
}

struct Bench {
    world: World,
    hands: Arc<Fake>,
    desk: Desk,
}

impl Bench {
    async fn new(prepare: Duration) -> Self {
        let world = World::default();
        let mut settings = settings();
        settings.movers.prepare_timeout = prepare;
        let metrics = lifeboat_web::Metrics::new("0");
        let context = Context::new(world.client().await, metrics, Arc::new(settings));
        let hands = Arc::new(Fake { world: world.clone(), ..Fake::default() });
        let desk = Desk { context, hands: hands.clone(), pace: Duration::from_millis(1) };
        Self { world, hands, desk }
    }

    fn ends(&self, ends: impl IntoIterator<Item = End>) {
        self.hands.ends.lock().unwrap().extend(ends);
    }

    fn movers(&self) -> usize {
        self.hands.assigned.lock().unwrap().len()
    }

    fn status(&self, path: &str) -> Value {
        self.world.get(path).unwrap()["status"].clone()
    }

    /// What is in the movers' namespace, and contents.
    fn left(&self) -> Vec<String> {
        let mut left = self.world.paths("/namespaces/lifeboat-movers/");
        left.extend(self.world.paths("/volumesnapshotcontents/lifeboat-"));
        left
    }
}
