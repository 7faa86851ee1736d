//! What all tasks of a restore share, and the loop that starts items when the scheduler allows it.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use lifeboat_cluster::ApiError;
use lifeboat_cluster::lookup;
use lifeboat_control::{Clock, locked};
use lifeboat_plan::catalogue::{Catalogue, GroupResource, ItemId};
use lifeboat_plan::items::priorities::Priorities;
use lifeboat_plan::items::rules::ItemRules;
use lifeboat_plan::items::scheduler::{Need, Scheduler};
use lifeboat_plan::items::trust::Untrusted;
use lifeboat_plan::items::waits::Wait;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::handler::ItemHandler;
use super::item::{self, WorkItem};
use super::namespaces::Namespaces;
use super::recorder::Recorder;
pub use super::schedule::Work;
use super::schedule::{Schedule, is_selected, schedule};
use crate::effects::Effects;
use crate::progress::{Progress, Waiting};
use crate::source::ItemSource;

/// The identity of an object in the cluster: type, namespace, name.
pub type ClusterKey = (GroupResource, Option<String>, String);

/// Why an item is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The Restore selects it.
    Selected,
    /// It is an additional item; `must_include`: filters do not apply.
    Additional { must_include: bool },
}

/// Time limits for waits, and the number of concurrent items.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For a namespace or an object that is being deleted to be gone.
    pub terminating: Duration,
    /// For a CustomResourceDefinition to be established.
    pub resource: Duration,
    /// How many items are processed at once, without those that wait: each one holds an object in memory.
    pub items: usize,
}

/// The parts of a run.
pub struct RunParts<'a> {
    pub source: Arc<dyn ItemSource>,
    pub rules: ItemRules,
    pub catalogue: Arc<Catalogue>,
    pub priorities: &'a Priorities,
    pub effects: Arc<dyn Effects>,
    pub handler: Arc<dyn ItemHandler>,
    pub recorder: Arc<dyn Recorder>,
    pub progress: Arc<Progress>,
    /// Set if the content of the location is untrusted and the Restore does not allow everything.
    pub untrusted: Option<Untrusted>,
    pub limits: Limits,
    pub clock: Clock,
}

/// The state of a run; shared by all tasks.
pub struct Run {
    pub source: Arc<dyn ItemSource>,
    pub rules: ItemRules,
    pub catalogue: Arc<Catalogue>,
    pub effects: Arc<dyn Effects>,
    pub handler: Arc<dyn ItemHandler>,
    pub recorder: Arc<dyn Recorder>,
    pub progress: Arc<Progress>,
    pub namespaces: Namespaces,
    pub untrusted: Option<Untrusted>,
    pub limits: Limits,
    clock: Clock,
    /// Which item is restored to which object, if several items could be restored to the same one.
    taken: Mutex<HashMap<ClusterKey, ItemId>>,
    works: Vec<Work>,
    /// How many works the Restore selects.
    selected: usize,
    /// The work for a position of the source.
    by_position: HashMap<usize, usize>,
    scheduler: Mutex<Scheduler>,
    /// For each work: 0 not ended, 1 ended, 2 ended and the object exists in the cluster.
    ends: Vec<AtomicU8>,
    awaited: Mutex<HashMap<usize, Arc<Notify>>>,
    changed: Notify,
}

impl Run {
    pub fn new(parts: RunParts<'_>) -> Arc<Self> {
        let RunParts { source, rules, catalogue, priorities, effects, .. } = parts;
        let Schedule { works, selected, scheduler } =
            schedule(source.as_ref(), &rules, priorities, &catalogue);
        parts.progress.total.store(selected, Ordering::Relaxed);
        let positions = works.iter().enumerate().filter_map(|(work, what)| match what {
            Work::Item(position) => Some((*position, work)),
            Work::Namespace(_) => None,
        });
        Arc::new(Self {
            by_position: positions.collect(),
            ends: works.iter().map(|_| AtomicU8::new(0)).collect(),
            works,
            selected,
            scheduler: Mutex::new(scheduler),
            source,
            rules,
            catalogue,
            effects,
            handler: parts.handler,
            recorder: parts.recorder,
            progress: parts.progress,
            untrusted: parts.untrusted,
            limits: parts.limits,
            clock: parts.clock,
            namespaces: Namespaces::default(),
            taken: Mutex::default(),
            awaited: Mutex::default(),
            changed: Notify::new(),
        })
    }

    pub fn work(&self, work: usize) -> &Work {
        &self.works[work]
    }

    pub fn works(&self) -> &[Work] {
        &self.works
    }

    /// How many items and namespaces the Restore selects.
    pub fn selected(&self) -> usize {
        self.selected
    }

    /// The namespaces that items are restored from.
    pub fn homes(&self) -> BTreeSet<&str> {
        self.works.iter().filter_map(Work::namespace).collect()
    }

    /// The work for an item of the backup.
    pub fn work_of(&self, id: &ItemId) -> Option<usize> {
        self.by_position.get(&self.source.find(id)?).copied()
    }

    /// Whether the source has the item and the Restore selects it.
    pub fn selects(&self, id: &ItemId) -> bool {
        let head = self.source.find(id).and_then(|position| self.source.head(position));
        head.is_some_and(|head| is_selected(&head, &self.rules))
    }

    /// An object of the cluster; None if it does not exist, or if its type is not served.
    pub async fn get(&self, id: &ItemId) -> Result<Option<Value>, ApiError> {
        match lookup::target(&self.catalogue, id) {
            Some(target) => self.effects.get(&target).await,
            None => Ok(None),
        }
    }

    /// Reserves an object in the cluster for an item; returns the other item of this restore that has it already.
    pub fn take(&self, place: ClusterKey, id: &ItemId) -> Option<ItemId> {
        let moved = place.0 != id.resource || place.2 != id.name;
        // Without namespace mapping no two items have the same target, and a million items need not be remembered.
        if self.rules.mapping.is_empty() && !moved {
            return None;
        }
        let mut taken = locked(&self.taken);
        let holder = taken.entry(place).or_insert_with(|| id.clone());
        (holder != id).then(|| holder.clone())
    }

    /// An item waits for something outside: it leaves its barrier, and is shown as waiting until the returned value
    /// is dropped. `action`: the action that asks for the wait; empty for the server.
    pub fn waiting(&self, item: &WorkItem, things: &[String], action: &str) -> Waiting {
        self.wait(item.work);
        let now = self.clock.now();
        let since = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now);
        let wait = Wait::new(&item.resource_id(), things, action, since);
        self.recorder.info(&wait.to_string(), None);
        self.progress.wait(item.work, wait)
    }

    /// How long an item waited for its action under a server that was interrupted.
    pub fn waited_before(&self, item: &WorkItem, action: &str) -> Duration {
        let now = self.clock.now();
        let since = self.progress.waits_since(&Wait::new(&item.resource_id(), &[], action, now));
        since.and_then(|since| Duration::try_from(now.duration_since(since)).ok()).unwrap_or_default()
    }

    /// Takes work that waits for something outside out of its barrier.
    pub fn wait(&self, work: usize) {
        self.scheduler().wait(work);
        self.changed.notify_one();
    }

    /// Restores an additional item of `item`, and waits for its end. Returns whether its object exists in the cluster
    /// afterwards.
    pub async fn restore_additional(
        self: &Arc<Self>,
        item: &WorkItem,
        other: usize,
        request: Request,
    ) -> bool {
        let need = self.scheduler().need(item.work, other);
        self.changed.notify_one();
        match need {
            Need::Done => {}
            Need::Start => {
                // A task of its own, which ends with this one: a chain of items that each name the next may be long.
                let mut task = JoinSet::new();
                task.spawn(item::process(self.clone(), other, request));
                task.join_next().await;
            }
            Need::Wait => self.ended(other).await,
            Need::Circle => {
                self.recorder.info(
                    "an additional item waits for this item itself; continuing without waiting",
                    Some(&item.id),
                );
                return false;
            }
        }
        self.exists(other)
    }

    /// Waits for the end of other work.
    async fn ended(&self, work: usize) {
        loop {
            let notify = locked(&self.awaited).entry(work).or_default().clone();
            let notified = notify.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if self.ends[work].load(Ordering::Acquire) != 0 {
                return;
            }
            notified.await;
        }
    }

    /// Whether work has ended with its object in the cluster.
    pub fn exists(&self, work: usize) -> bool {
        self.ends[work].load(Ordering::Acquire) == 2
    }

    fn end(&self, work: usize, exists: bool) {
        self.ends[work].store(if exists { 2 } else { 1 }, Ordering::Release);
        self.scheduler().end(work);
        self.progress.restored.fetch_add(1, Ordering::Relaxed);
        if let Some(waiters) = locked(&self.awaited).remove(&work) {
            waiters.notify_waiters();
        }
        self.changed.notify_one();
    }

    fn scheduler(&self) -> MutexGuard<'_, Scheduler> {
        locked(&self.scheduler)
    }
}

/// Marks work as ended however its task ends.
pub(super) struct Ending<'a> {
    run: &'a Run,
    work: usize,
    pub(super) exists: bool,
}

impl<'a> Ending<'a> {
    pub(super) fn new(run: &'a Run, work: usize) -> Self {
        Self { run, work, exists: false }
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.run.end(self.work, self.exists);
    }
}

/// Runs until every item has ended, or `cancel` is cancelled.
pub async fn drive(run: &Arc<Run>, cancel: &CancellationToken) {
    let mut tasks = JoinSet::new();
    loop {
        let waiting = start(run, &mut tasks);
        run.progress.waiting.store(waiting, Ordering::Relaxed);
        if run.scheduler().is_finished() {
            break;
        }
        tokio::select! {
            () = cancel.cancelled() => {
                tasks.shutdown().await;
                return;
            }
            () = run.changed.notified() => {}
            Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
                if let Err(error) = ended
                    && error.is_panic()
                {
                    let message = "restoring an item ended unexpectedly; this is a defect of Lifeboat";
                    run.recorder.general_error(message.to_owned());
                }
            }
        }
    }
    while tasks.join_next().await.is_some() {}
}

/// Starts all items that may start; returns the number of items that wait.
fn start(run: &Arc<Run>, tasks: &mut JoinSet<()>) -> usize {
    while tasks.try_join_next().is_some() {}
    let mut scheduler = run.scheduler();
    let waiting = scheduler.waiting_count();
    while tasks.len() < run.limits.items + waiting {
        let Some(work) = scheduler.start() else { break };
        tasks.spawn(item::process(run.clone(), work, Request::Selected));
    }
    waiting
}
