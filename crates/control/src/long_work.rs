//! Work that outlives a reconcile: one task for each object, by the object's UID. A copy of a volume takes hours, and no
//! reconcile waits for it. Controllers start the work from their reconcilers. When the term ends, they drop it
//! ([`LongWork::leave`]), or wait for it if it ends on its own ([`LongWork::ended`]). Every end is counted by kind of work.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use lifeboat_web::{Metrics, WorkOutcome};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::locked;

/// How work ended that was not dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkEnd {
    Done,
    /// It ended with an error of this category, which the work has reported. It is begun again when its object is
    /// reconciled.
    Failed(&'static str),
}

impl WorkEnd {
    /// `category` names the category of an error, a word from a fixed list.
    pub fn of<T, E>(result: &Result<T, E>, category: impl FnOnce(&E) -> &'static str) -> Self {
        result.as_ref().map_or_else(|error| Self::Failed(category(error)), |_| Self::Done)
    }
}

/// The running tasks, by the UID of their object. Dropping it drops them, so no task may hold it.
#[derive(Debug)]
pub struct LongWork {
    /// The kind of work, in logs and metrics.
    name: &'static str,
    metrics: Metrics,
    running: Arc<Mutex<BTreeMap<String, CancellationToken>>>,
    tasks: Mutex<JoinSet<()>>,
}

impl LongWork {
    pub fn new(metrics: &Metrics, name: &'static str) -> Self {
        Self { name, metrics: metrics.clone(), running: Arc::default(), tasks: Mutex::default() }
    }

    /// Starts the work on an object, unless it runs already. `work` gets the token that cancels it.
    pub fn start<F>(&self, uid: &str, work: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = WorkEnd> + Send + 'static,
    {
        let token = {
            let mut running = locked(&self.running);
            if running.contains_key(uid) {
                return;
            }
            let token = CancellationToken::new();
            running.insert(uid.to_owned(), token.clone());
            token
        };
        let entry = RunningEntry { running: self.running.clone(), uid: uid.to_owned() };
        let work = AssertUnwindSafe(work(token)).catch_unwind();
        let (name, metrics) = (self.name, self.metrics.clone());
        let task = async move {
            let _entry = entry;
            let outcome = match work.await {
                Ok(WorkEnd::Done) => WorkOutcome::Ended,
                Ok(WorkEnd::Failed(category)) => WorkOutcome::Failed(category),
                Err(_panic) => {
                    tracing::error!(
                        work = name,
                        "work ended unexpectedly; this is a defect of Lifeboat. It is begun again when its object is \
                         reconciled"
                    );
                    WorkOutcome::Panicked
                }
            };
            metrics.count_work(name, outcome);
        };
        let mut tasks = locked(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task.in_current_span());
    }

    /// Whether the work on an object runs.
    pub fn is_running(&self, uid: &str) -> bool {
        locked(&self.running).contains_key(uid)
    }

    /// Cancels the work on an object.
    pub fn cancel(&self, uid: &str) {
        if let Some(token) = locked(&self.running).get(uid) {
            token.cancel();
        }
    }

    /// Cancels the work on all objects that are gone.
    pub fn cancel_others(&self, there: impl Fn(&str) -> bool) {
        for (uid, token) in locked(&self.running).iter() {
            if !there(uid) {
                token.cancel();
            }
        }
    }

    /// Waits until all work that was started has ended.
    pub async fn ended(&self) {
        let mut tasks = std::mem::take(&mut *locked(&self.tasks));
        while tasks.join_next().await.is_some() {}
    }

    /// Drops all running work: the next leader continues it.
    pub async fn leave(&self) {
        let mut tasks = std::mem::take(&mut *locked(&self.tasks));
        tasks.shutdown().await;
    }
}

/// The entry of a running task, removed when the task ends or is dropped.
struct RunningEntry {
    running: Arc<Mutex<BTreeMap<String, CancellationToken>>>,
    uid: String,
}

impl Drop for RunningEntry {
    fn drop(&mut self) {
        locked(&self.running).remove(&self.uid);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn work() -> LongWork {
        LongWork::new(&Metrics::new("0"), "copy")
    }

    #[tokio::test]
    async fn an_object_has_one_task_at_a_time_which_can_be_cancelled() {
        let work = work();
        let started = Arc::new(Mutex::new(0));
        for _ in 0..2 {
            let started = started.clone();
            work.start("a", |cancel| async move {
                *locked(&started) += 1;
                cancel.cancelled().await;
                WorkEnd::Done
            });
        }
        assert!(work.is_running("a"));
        work.cancel_others(|uid| uid == "a");
        assert!(work.is_running("a"), "its object is there");
        work.cancel("a");
        work.ended().await;
        assert_eq!(*locked(&started), 1);
        assert!(!work.is_running("a"));
    }

    #[tokio::test]
    async fn work_that_is_left_is_dropped_and_can_be_started_again() {
        let work = work();
        work.start("a", |_| std::future::pending());
        work.leave().await;
        assert!(!work.is_running("a"));
        assert!(!work.metrics.render().contains("lifeboat_work_total{"), "the next leader continues it");
    }

    #[rstest]
    #[case::done(Some(WorkEnd::Done), "Ended", "")]
    #[case::failed(Some(WorkEnd::Failed("storage")), "Failed", "storage")]
    #[case::a_defect(None, "Panicked", "defect")]
    #[tokio::test]
    async fn every_end_is_counted_and_the_work_can_be_started_again(
        #[case] end: Option<WorkEnd>,
        #[case] outcome: &str,
        #[case] category: &str,
    ) {
        let work = work();
        for _ in 0..2 {
            work.start("a", move |_| async move { end.unwrap() });
            work.ended().await;
            assert!(!work.is_running("a"));
        }
        let text = work.metrics.render();
        let labels = format!("work=\"copy\",outcome=\"{outcome}\",category=\"{category}\"");
        let line = format!("lifeboat_work_total{{{labels}}} 2");
        assert!(text.contains(&line), "{text}");
    }
}
