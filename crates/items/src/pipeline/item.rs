//! One item from its source to the cluster. [`steps`] is the only place that defines what happens to an item, for a
//! restore and for a dry run: what is left out, what the handler changes, resource modifiers, gates, then
//! [`super::apply`].

use std::any::Any;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use lifeboat_plan::catalogue::ItemId;
use lifeboat_plan::facts::ObjectFacts;
use lifeboat_plan::items::trust::{Distrust, Untrusted};
use lifeboat_plan::items::{filter, sanitise, trust};
use serde_json::Value;

use super::handler::Transformed;
use super::namespaces::NamespaceState;
use super::run::{Ending, Request, Run, Work};
use super::{apply, gates, namespaces};
use crate::outcome::{ItemOutcome, Notes, SkipReason};
use crate::source::ReadItem;

/// The item that is being restored.
#[derive(Debug)]
pub struct WorkItem {
    pub work: usize,
    /// Its position in the source, in the version that is restored.
    pub position: usize,
    /// Its ID in the backup.
    pub id: ItemId,
    pub api_version: String,
    pub kind: String,
    /// The namespace that it is restored into.
    pub target: Option<String>,
}

impl WorkItem {
    fn new(run: &Run, work: usize, position: usize) -> Option<Self> {
        let preferred = run.source.head(position)?;
        let id = preferred.id();
        let other =
            run.rules.versions.get(&id.resource).and_then(|version| run.source.find_version(&id, version));
        let head = other.and_then(|position| run.source.head(position)).unwrap_or(preferred);
        Some(Self {
            work,
            position: head.position,
            api_version: head.api_version.to_owned(),
            kind: head.kind.to_owned(),
            target: head.namespace.map(|namespace| run.rules.target(namespace).to_owned()),
            id,
        })
    }

    /// The item's name in upstream's messages.
    pub fn resource_id(&self) -> String {
        match &self.target {
            Some(namespace) => format!("{}/{namespace}/{}", self.id.resource, self.id.name),
            None => format!("{}/{}", self.id.resource, self.id.name),
        }
    }

    pub fn is(&self, resource: &str) -> bool {
        self.id.resource.to_string() == resource
    }

    /// Its ID in the cluster, with the namespace that it is restored into.
    pub fn in_cluster(&self) -> ItemId {
        ItemId { namespace: self.target.clone(), ..self.id.clone() }
    }
}

/// Processes one item or namespace and reports its end to the scheduler.
pub fn process(run: Arc<Run>, work: usize, request: Request) -> BoxFuture<'static, ()> {
    async move {
        let mut ending = Ending::new(&run, work);
        ending.exists = match run.work(work) {
            Work::Namespace(name) => namespaces::ensure(&run, name, work).await.is_ok(),
            Work::Item(position) => match WorkItem::new(&run, work, *position) {
                Some(item) => restore(&run, &item, request).await,
                None => false,
            },
        };
    }
    .boxed()
}

/// Restores one item; true if its object exists in the cluster afterwards.
async fn restore(run: &Arc<Run>, item: &WorkItem, request: Request) -> bool {
    let mut notes = Notes::default();
    let outcome = match steps(run, item, request, &mut notes).await {
        Ok(outcome) | Err(outcome) => outcome,
    };
    let exists = outcome.is_in_cluster();
    run.recorder.item(item, outcome, notes);
    run.progress.ended(&item.resource_id());
    exists
}

/// The outcome of the item; a step that ends it early returns the outcome as an error.
async fn steps(
    run: &Arc<Run>,
    item: &WorkItem,
    request: Request,
    notes: &mut Notes,
) -> Result<ItemOutcome, ItemOutcome> {
    selected(run, item, request)?;
    // Of a type that is never created nothing comes from any location.
    let comes = !filter::is_never_created(&item.id.resource);
    if comes {
        trusted(run, |_| trust::judge_type(&item.id.resource))?;
    }
    if let Some(namespace) = &item.id.namespace {
        let usable = namespaces::ensure(run, namespace, item.work).await;
        let state = usable.map_err(|error| ItemOutcome::NoNamespace(error.to_string()))?;
        let target = run.rules.target(namespace);
        if comes {
            trusted(run, |untrusted| untrusted.judge_namespace(target, state == NamespaceState::Created))?;
        }
    }
    let (original, _memory) = read(run, item, notes).await?;
    still_of_use(run, item, &original)?;
    of_a_user(run, item, &original)?;
    let Transformed { mut object, taken } = run.handler.transform(run, item, original, notes).await?;
    for problem in run.rules.modifiers.apply(&mut object, &item.id.resource) {
        notes.error(problem);
    }
    run.handler.mark(&mut object, item.target.as_deref());
    gates::await_service(run, item, &object, notes).await;
    apply::apply(run, item, object, taken, notes).await
}

/// Whether an additional item is restored; items that the Restore selects itself were checked before.
fn selected(run: &Run, item: &WorkItem, request: Request) -> Result<(), ItemOutcome> {
    if !matches!(request, Request::Additional { must_include: false }) {
        return Ok(());
    }
    let judged = run.rules.filter.judge_additional(&item.id);
    judged.map_err(|reason| ItemOutcome::NotSelected(reason.to_string()))
}

/// Whether the item may be restored from its location. `judge` is asked only if the location is untrusted.
pub(super) fn trusted(
    run: &Run,
    judge: impl FnOnce(&Untrusted) -> Result<(), Distrust>,
) -> Result<(), ItemOutcome> {
    let Some(untrusted) = &run.untrusted else { return Ok(()) };
    let location = untrusted.location.clone();
    judge(untrusted).map_err(|cause| ItemOutcome::Skipped(SkipReason::Untrusted { location, cause }))
}

/// The object, and the memory that is counted for it.
async fn read(
    run: &Run,
    item: &WorkItem,
    notes: &mut Notes,
) -> Result<(Value, Box<dyn Any + Send + Sync>), ItemOutcome> {
    let mut failed =
        |error: &dyn std::fmt::Display| notes.fail(format!("error decoding {}: {error}", item.resource_id()));
    let ReadItem { json, memory } = run.source.read(item.position).await.map_err(|error| failed(&error))?;
    Ok((serde_json::from_slice(&json).map_err(|error| failed(&error))?, memory))
}

/// Whether the object is neither a key of the server nor a part of a mover.
fn of_a_user(run: &Run, item: &WorkItem, original: &Value) -> Result<(), ItemOutcome> {
    let labels = serde_json::from_value(original["metadata"]["labels"].clone()).ok();
    let facts = ObjectFacts {
        name: &item.id.name,
        namespace: item.id.namespace.as_deref(),
        labels: labels.as_ref(),
        deleting: false,
    };
    if run.rules.own.leaves_between(&item.id.resource, &facts, item.target.as_deref()) {
        return Err(ItemOutcome::Skipped(SkipReason::Own));
    }
    Ok(())
}

/// Whether the object is of use in the cluster: completed pods and Jobs, for example, are not.
fn still_of_use(run: &Run, item: &WorkItem, original: &Value) -> Result<(), ItemOutcome> {
    let reason = if sanitise::is_completed(&item.id.resource, original) {
        SkipReason::Completed
    } else if sanitise::is_mirror_pod(&item.id.resource, original) {
        SkipReason::MirrorPod
    } else if sanitise::job_of(&item.id, original).is_some_and(|job| run.selects(&job)) {
        SkipReason::OfRestoredJob
    } else {
        return Ok(());
    };
    Err(ItemOutcome::Skipped(reason))
}
