//! What all tasks of a restore share, and the loop that starts items as the scheduler allows it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lifeboat_api::velero::Restore;
use lifeboat_archive::{Item, Spool, Uid};
use lifeboat_cluster::write::Writer;
use lifeboat_plan::catalogue::{Catalogue, GroupResource, ItemId};
use lifeboat_plan::restore::relations::{self, Related};
use lifeboat_plan::restore::scheduler::{Need, Scheduler};
use lifeboat_plan::restore::trust;
use lifeboat_plan::restore::validate::ValidRestore;
use lifeboat_plan::restore::volumes::DataIn;
use lifeboat_plan::restore::waits::Wait;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::item;
use super::item::Subject;
use super::namespaces::Namespaces;
use crate::backup::Commands;
use crate::restore::handler::actions::Actions;
use crate::restore::handler::hooks::HookRuns;
use crate::restore::handler::idle::idle;
use crate::restore::handler::journal::{Begun, Journal};
use crate::restore::handler::lookup::ClusterLookup;
use crate::restore::handler::maker::VolumeMaker;
use crate::restore::handler::native::Volumes;
use crate::restore::handler::pod_volumes::Filler;
use crate::restore::handler::report::{Progress, Report, Waiting};
use crate::restore::handler::{Job, Times, Tools};

/// Items under way at once, without those that wait: each holds one object. Twice the requests that may be.
const ITEMS: usize = 128;

/// A place in the cluster: type, namespace, name.
pub(crate) type Place = (GroupResource, Option<String>, String);

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Make sure of a namespace, by its name in the backup.
    Namespace(String),
    /// The item at a place of the spool.
    Item(usize),
}

impl Work {
    fn namespace(&self) -> Option<&str> {
        if let Self::Namespace(name) = self { Some(name) } else { None }
    }
}

/// How an item came to be restored.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    /// Another item asked for it.
    pub(crate) additional: bool,
    /// And said that no filter counts.
    pub(crate) must_include: bool,
}

/// Shared by all tasks.
pub(crate) struct Run {
    pub(crate) restore: Restore,
    pub(crate) valid: ValidRestore,
    pub(crate) spool: Spool,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) writer: Writer,
    pub(crate) lookup: ClusterLookup,
    pub(crate) actions: Actions,
    pub(crate) journal: Arc<Journal>,
    /// What earlier attempts began.
    pub(crate) begun: Begun,
    pub(crate) namespaces: Namespaces,
    pub(crate) volumes: BTreeMap<String, DataIn>,
    /// Volumes that are made anew for their claims.
    pub(crate) provisioned: Mutex<BTreeSet<String>>,
    /// Claims that are filled from CSI snapshots, by their places in the cluster.
    pub(crate) filled: Mutex<BTreeSet<(String, String)>>,
    /// Volumes that are made from snapshots.
    pub(crate) native: Mutex<Volumes>,
    pub(crate) maker: Option<Arc<VolumeMaker>>,
    pub(crate) filler: Option<Arc<Filler>>,
    /// Which item took a place in the cluster, where several could want the same one.
    taken: Mutex<HashMap<Place, ItemId>>,
    pub(crate) untrusted: Option<String>,
    pub(crate) report: Report,
    pub(crate) hooks: HookRuns,
    pub(crate) commands: Arc<dyn Commands>,
    pub(crate) times: Times,
    works: Vec<Work>,
    /// Where the work for a place of the spool is.
    by_place: HashMap<usize, usize>,
    scheduler: Mutex<Scheduler>,
    /// For each work: 0 under way or before, 1 ended, 2 ended and the object is in the cluster.
    ends: Vec<AtomicU8>,
    awaited: Mutex<HashMap<usize, Arc<Notify>>>,
    changed: Notify,
}

impl Run {
    pub(crate) fn new(job: Job, tools: &Tools, actions: Actions, progress: Arc<Progress>) -> Arc<Self> {
        let Job { restore, valid, spool, volumes, untrusted, begun, log } = job;
        let (works, wanted, scheduler) = schedule(&spool, &valid, tools);
        progress.total.store(wanted, Ordering::Relaxed);
        let report = Report::new(log, progress);
        let homes = works.iter().filter_map(Work::namespace).collect();
        for words in idle(&restore, &spool, &tools.catalogue, homes, wanted) {
            report.general_warning(words);
        }
        let untrusted = untrusted.filter(|_| !trust::is_allowed(restore.metadata.annotations.as_ref()));
        let by_place = works
            .iter()
            .enumerate()
            .filter_map(|(work, what)| if let Work::Item(place) = what { Some((*place, work)) } else { None })
            .collect();
        let writer = tools.writer();
        Arc::new(Self {
            lookup: ClusterLookup::new(writer.clone(), tools.catalogue.clone()),
            writer,
            actions,
            journal: tools.journal.clone(),
            begun,
            catalogue: tools.catalogue.clone(),
            namespaces: Namespaces::default(),
            volumes,
            provisioned: Mutex::default(),
            filled: Mutex::default(),
            native: Mutex::default(),
            maker: tools.maker.clone(),
            filler: tools.filler.clone(),
            taken: Mutex::default(),
            untrusted,
            report,
            hooks: HookRuns::default(),
            commands: tools.commands.clone(),
            times: tools.times,
            ends: works.iter().map(|_| AtomicU8::new(0)).collect(),
            works,
            by_place,
            scheduler: Mutex::new(scheduler),
            awaited: Mutex::default(),
            changed: Notify::new(),
            restore,
            valid,
            spool,
        })
    }

    pub(crate) fn name(&self) -> &str {
        self.restore.metadata.name.as_deref().unwrap_or_default()
    }

    /// A claim gets its data from a CSI snapshot.
    pub(crate) fn fills(&self, subject: &Subject) {
        let claim = (subject.target.clone().unwrap_or_default(), subject.id.name.clone());
        locked(&self.filled).insert(claim);
    }

    pub(crate) fn backup(&self) -> &str {
        self.restore.spec.backup_name.as_deref().unwrap_or_default()
    }

    pub(crate) fn work(&self, work: usize) -> &Work {
        &self.works[work]
    }

    /// The work for an item of the backup.
    pub(crate) fn work_of(&self, id: &ItemId) -> Option<usize> {
        self.by_place.get(&self.spool.find(id)?).copied()
    }

    /// Takes a place in the cluster for an item; gives the other item of this restore that has it.
    pub(crate) fn take(&self, place: Place, id: &ItemId) -> Option<ItemId> {
        let moved = place.0 != id.resource || place.2 != id.name;
        // Without mapping every item has a place of its own, and a million of them need not be remembered.
        if self.valid.mapping.is_empty() && !moved {
            return None;
        }
        let mut taken = locked(&self.taken);
        let holder = taken.entry(place).or_insert_with(|| id.clone());
        (holder != id).then(|| holder.clone())
    }

    /// An item waits for things outside: it leaves its barrier, and says so until what this gives is dropped. `action`: who asks
    /// for it; empty for the server.
    pub(crate) fn waiting(&self, subject: &Subject, things: &[String], action: &str) -> Waiting {
        self.wait(subject.work);
        let now = jiff::Timestamp::now();
        let since = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now);
        let wait = Wait::new(&subject.resource_id(), things, action, since);
        self.report.log.info(&wait.to_string(), &[]);
        self.report.progress.wait(subject.work, wait)
    }

    /// Work that waits for something outside leaves its barrier.
    pub(crate) fn wait(&self, work: usize) {
        self.scheduler().wait(work);
        self.changed.notify_one();
    }

    pub(crate) fn need(&self, work: usize, other: usize) -> Need {
        let need = self.scheduler().need(work, other);
        self.changed.notify_one();
        need
    }

    /// Waits for the end of other work.
    pub(crate) async fn ended(&self, work: usize) {
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
    pub(crate) fn exists(&self, work: usize) -> bool {
        self.ends[work].load(Ordering::Acquire) == 2
    }

    fn end(&self, work: usize, exists: bool) {
        self.ends[work].store(if exists { 2 } else { 1 }, Ordering::Release);
        self.scheduler().end(work);
        self.report.progress.restored.fetch_add(1, Ordering::Relaxed);
        if let Some(waiters) = locked(&self.awaited).remove(&work) {
            waiters.notify_waiters();
        }
        self.changed.notify_one();
    }

    fn scheduler(&self) -> MutexGuard<'_, Scheduler> {
        locked(&self.scheduler)
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends work however its task ends.
pub(crate) struct Ending<'a> {
    run: &'a Run,
    work: usize,
    pub(crate) exists: bool,
}

impl<'a> Ending<'a> {
    pub(crate) fn new(run: &'a Run, work: usize) -> Self {
        Self { run, work, exists: false }
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.run.end(self.work, self.exists);
    }
}

/// Runs until every item has ended, or `cancel`.
pub(crate) async fn drive(run: &Arc<Run>, cancel: &CancellationToken) {
    let mut tasks = JoinSet::new();
    loop {
        let waiting = start(run, &mut tasks);
        run.report.progress.waiting.store(waiting, Ordering::Relaxed);
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
                    run.report.general_error("restoring an item ended unexpectedly; this is a defect of Lifeboat");
                }
            }
        }
    }
    while tasks.join_next().await.is_some() {}
}

/// Starts what may start; gives the number of items that wait.
fn start(run: &Arc<Run>, tasks: &mut JoinSet<()>) -> usize {
    while tasks.try_join_next().is_some() {}
    let mut scheduler = run.scheduler();
    let waiting = scheduler.waiting_count();
    while tasks.len() < ITEMS + waiting {
        let Some(work) = scheduler.start() else { break };
        tasks.spawn(item::process(run.clone(), work, Asked::default()));
    }
    waiting
}

/// The works, how many of them are wanted, and the scheduler over them: all items of the spool, those that nobody wants asleep, and the namespaces that
/// something is restored into.
fn schedule(spool: &Spool, valid: &ValidRestore, tools: &Tools) -> (Vec<Work>, usize, Scheduler) {
    let items: Vec<Item<'_>> = spool.items().filter(|item| !is_namespace(item.resource())).collect();
    let wanted: Vec<bool> = items.iter().map(|item| is_wanted(item, valid)).collect();
    let mut homes: BTreeSet<&str> = spool
        .items()
        .filter(|item| is_namespace(item.resource()) && is_wanted(item, valid))
        .map(|item| item.name())
        .collect();
    homes.extend(
        items.iter().zip(&wanted).filter(|(_, wanted)| **wanted).filter_map(|(item, _)| item.namespace()),
    );

    let namespaces = GroupResource::new("", "namespaces");
    let mut types: BTreeSet<GroupResource> = items.iter().map(|item| item.resource().clone()).collect();
    types.insert(namespaces.clone());
    let types: Vec<GroupResource> = types.into_iter().collect();
    let barriers = tools.priorities.barriers(&types, &tools.catalogue);
    let mut related: Vec<Related<'_, Uid>> = items
        .iter()
        .zip(&wanted)
        .map(|(item, wanted)| Related {
            resource: item.resource(),
            namespace: item.namespace(),
            name: item.name(),
            barrier: barriers[item.resource()],
            dormant: !wanted,
            uid: item.uid(),
            owners: item.owners(),
            claims: item.claims().collect(),
        })
        .collect();
    related.extend(homes.iter().map(|&name| Related {
        resource: &namespaces,
        namespace: None,
        name,
        barrier: barriers[&namespaces],
        dormant: false,
        uid: None,
        owners: &[],
        claims: Vec::new(),
    }));
    let scheduler = Scheduler::new(relations::entries(&related));
    let works = items.iter().map(|item| Work::Item(item.index()));
    let homes = homes.iter().map(|&name| Work::Namespace(name.to_owned()));
    let count = homes.len() + wanted.iter().filter(|wanted| **wanted).count();
    (works.chain(homes).collect(), count, scheduler)
}

fn is_namespace(resource: &GroupResource) -> bool {
    resource.group.is_empty() && resource.resource == "namespaces"
}

/// Whether the archive holds the item and the Restore asks for it.
pub(crate) fn takes(spool: &Spool, valid: &ValidRestore, id: &ItemId) -> bool {
    spool.find(id).and_then(|place| spool.item(place)).is_some_and(|item| is_wanted(&item, valid))
}

fn is_wanted(item: &Item<'_>, valid: &ValidRestore) -> bool {
    let labels = if valid.filter.asks_for_labels() {
        item.labels().iter().cloned().collect()
    } else {
        BTreeMap::new()
    };
    valid.filter.judge(&item.id(), item.kind(), &labels).is_ok()
}
