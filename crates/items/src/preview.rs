//! A dry run: what a restore would do, as a value. The run is the restore's own, with [`DryRun`] as effects and a
//! recorder that keeps the outcome of each item; this file turns the outcomes into the plan that `lifeboat restore
//! create --dry-run` shows.

mod dry_run;
mod fights;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use lifeboat_plan::catalogue::ItemId;
use serde::Serialize;

use crate::outcome::{ItemOutcome, Notes};
use crate::pipeline::item::WorkItem;
use crate::pipeline::namespaces::NamespaceState;
use crate::pipeline::recorder::Recorder;
use crate::pipeline::run::{Run, Work};
use crate::source::ItemHead;
use lifeboat_control::locked;

pub use dry_run::DryRun;

/// How many items a dry run processes at once: a user waits, and other clients use the cluster.
pub const AT_ONCE: usize = 32;

/// What a restore would do with one item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "action", content = "why", rename_all = "camelCase")]
pub enum Would {
    Create,
    /// It exists, and would be changed.
    Update,
    /// It is selected, and would not be changed.
    Skip(String),
    /// The Restore does not select it.
    NotSelected(String),
    Fail(String),
}

/// One line of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedItem {
    /// `resource.group`.
    pub resource: String,
    /// The item's name in the backup.
    pub item: String,
    /// The namespace that it is restored into.
    pub namespace: Option<String>,
    #[serde(flatten)]
    pub would: Would,
}

/// A controller in the cluster that would adopt a restored pod beside the pods that it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fight {
    pub pod: String,
    pub controller: String,
}

/// The plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Planned {
    /// The backup that would be restored.
    pub backup: String,
    pub items: Vec<PlannedItem>,
    pub fights: Vec<Fight>,
    /// What else the restore would report: data that is not restored, namespaces that are being deleted.
    pub notes: Vec<String>,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotPlanned {
    pub problems: Vec<String>,
    /// True if the server would refuse the Restore; false if something could not be read from here.
    pub refused: bool,
}

/// Keeps the outcome of each item, by its work.
#[derive(Default)]
pub struct Outcomes {
    items: Mutex<BTreeMap<usize, (ItemOutcome, Notes)>>,
    general: Mutex<Vec<String>>,
}

impl Recorder for Outcomes {
    fn item(&self, item: &WorkItem, outcome: ItemOutcome, notes: Notes) {
        locked(&self.items).insert(item.work, (outcome, notes));
    }

    /// The run keeps the state of every namespace.
    fn namespace_created(&self, _: &str) {}

    fn general_error(&self, message: String) {
        locked(&self.general).push(message);
    }

    fn general_warning(&self, message: String) {
        locked(&self.general).push(message);
    }

    fn info(&self, _: &str, _: Option<&ItemId>) {}
}

/// The plan, from a run that has ended.
pub async fn planned(run: &Run, outcomes: &Outcomes, dry_run: &DryRun, backup: &str) -> Planned {
    let mut planned = Planned {
        backup: backup.to_owned(),
        notes: std::mem::take(&mut *locked(&outcomes.general)),
        ..Planned::default()
    };
    let mut items = std::mem::take(&mut *locked(&outcomes.items));
    let mut pods = Vec::new();
    for head in run.source.heads() {
        let would = if head.is_namespace() {
            namespace_would(run, &head)
        } else {
            let ended = run.work_of(&head.id()).and_then(|work| items.remove(&work));
            ended.map_or_else(|| not_started(run, &head), |ended| would(ended, &mut planned.notes))
        };
        let namespace = namespace_of(run, &head);
        if would == Would::Create && head.resource.group.is_empty() && head.resource.resource == "pods" {
            pods.push((namespace.clone().unwrap_or_default(), head.position));
        }
        let (resource, item) = (head.resource.to_string(), head.id().path());
        planned.items.push(PlannedItem { resource, item, namespace, would });
    }
    planned.items.extend(further_namespaces(run));
    planned.notes.extend(dry_run.take_notes());
    planned.fights = fights::fights(run, &pods).await;
    planned
}

/// The namespace that an item is restored into; for a namespace its new name, if it gets one.
fn namespace_of(run: &Run, head: &ItemHead<'_>) -> Option<String> {
    if head.is_namespace() {
        let target = run.rules.target(head.name);
        return (target != head.name).then(|| target.to_owned());
    }
    head.namespace.map(|name| run.rules.target(name).to_owned())
}

/// The line of the plan for an item that was processed; its other messages are added to `all`.
fn would((outcome, mut notes): (ItemOutcome, Notes), all: &mut Vec<String>) -> Would {
    let would = match outcome {
        ItemOutcome::Created => Would::Create,
        ItemOutcome::Updated | ItemOutcome::Labelled => Would::Update,
        ItemOutcome::Same => Would::Skip("it is there and the same".to_owned()),
        ItemOutcome::Different { .. } => {
            Would::Skip("it is there and different (--existing-resource-policy update changes it)".to_owned())
        }
        ItemOutcome::Skipped(reason) => Would::Skip(reason.reason()),
        ItemOutcome::NotSelected(reason) => Would::NotSelected(reason),
        ItemOutcome::NoNamespace(reason) => Would::Fail(reason),
        ItemOutcome::NotUpdated | ItemOutcome::Failed => {
            let errors = std::mem::take(&mut notes.errors);
            let reasons = if errors.is_empty() { std::mem::take(&mut notes.warnings) } else { errors };
            Would::Fail(reasons.join("; "))
        }
    };
    all.extend(notes.warnings.into_iter().chain(notes.errors));
    would
}

/// The line of an item that was not processed: the Restore does not select it.
fn not_started(run: &Run, head: &ItemHead<'_>) -> Would {
    let labels = head.labels.iter().cloned().collect();
    match run.rules.filter.judge(&head.id(), head.kind, &labels) {
        Err(reason) => Would::NotSelected(reason.to_string()),
        Ok(()) => Would::Fail("the preview ended before it".to_owned()),
    }
}

/// The line of a namespace of the backup, which is created if items are restored into it. A namespace that the Restore
/// does not select is created too if an additional item is restored into it.
fn namespace_would(run: &Run, head: &ItemHead<'_>) -> Would {
    let is_home = run.homes().contains(head.name);
    match run.namespaces.state(run.rules.target(head.name)) {
        Some(Ok(NamespaceState::Created)) if is_home || !is_of_another(run, head) => Would::Create,
        Some(Ok(NamespaceState::WasThere)) if is_home => Would::Skip("it is there".to_owned()),
        Some(Err(error)) if is_home => Would::Fail(error.to_string()),
        _ => not_started(run, head),
    }
}

/// Whether another namespace of the backup is restored under the name of this one, and has the line of the plan.
fn is_of_another(run: &Run, head: &ItemHead<'_>) -> bool {
    let (homes, target) = (run.homes(), run.rules.target(head.name));
    let mut others = run.source.heads().filter(|other| other.is_namespace() && other.name != head.name);
    others.any(|other| homes.contains(other.name) && run.rules.target(other.name) == target)
}

/// Namespaces that are created although the backup does not have them.
fn further_namespaces(run: &Run) -> impl Iterator<Item = PlannedItem> {
    let target = |name: &str| run.rules.target(name).to_owned();
    let heads = || run.source.heads();
    let known: BTreeSet<String> =
        heads().filter(ItemHead::is_namespace).map(|head| target(head.name)).collect();
    let homes: BTreeSet<&str> = run
        .works()
        .iter()
        .filter_map(Work::namespace)
        .chain(heads().filter_map(|head| head.namespace))
        .collect();
    let targets: BTreeSet<String> = homes.into_iter().map(target).collect();
    let created = |name: &String| {
        !known.contains(name) && run.namespaces.state(name) == Some(Ok(NamespaceState::Created))
    };
    let further: Vec<String> = targets.into_iter().filter(created).collect();
    further.into_iter().map(|item| PlannedItem {
        resource: "namespaces".to_owned(),
        item,
        namespace: None,
        would: Would::Create,
    })
}
