//! Runs the restore item actions for an item, and restores their additional items first. An item whose action waits
//! for additional items leaves its barrier.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lifeboat_plan::catalogue::{Catalogue, GroupResource, ItemId};
use lifeboat_plan::items::sanitise::remove_annotations;
use lifeboat_plan::velero::restore::volumes::DataIn;
use lifeboat_plugin::actions::{ActionError, Lookup, RestoreInput, RestoreItemAction, RestoreOutcome};
use serde_json::Value;
use tokio::time::timeout;

use super::readiness::await_ready;
use super::{VeleroHandler, operations, volumes};
use crate::applying::{Applying, applying};
use lifeboat_control::locked;
use lifeboat_items::outcome::{ItemOutcome, Notes, SkipReason};
use lifeboat_items::pipeline::item::WorkItem;
use lifeboat_items::pipeline::run::{Request, Run};

/// Annotation that an action sets on its item: filters do not apply to the additional items.
const MUST_INCLUDE: &str = "restore.velero.io/must-include-additional-items";

/// How many additional items that are not in the backup are named per call.
const MOST_NAMED: usize = 10;

/// All actions, and the items they apply to.
#[derive(Default)]
pub(super) struct Actions {
    all: Vec<Arc<Applying<dyn RestoreItemAction>>>,
    for_types: Mutex<BTreeMap<GroupResource, Arc<Vec<Applicable>>>>,
}

/// An action that applies to a type; the selector is still checked for each item.
pub(super) struct Applicable(Arc<Applying<dyn RestoreItemAction>>);

impl Actions {
    /// Asks each action what it applies to; also returns why some are left out.
    pub(super) async fn ask(
        actions: &[Arc<dyn RestoreItemAction>],
        catalogue: &Catalogue,
    ) -> (Self, Vec<String>) {
        let (all, left_out) = applying(actions, catalogue).await;
        (Self { all: all.into_iter().map(Arc::new).collect(), for_types: Mutex::default() }, left_out)
    }

    /// The action with this name.
    pub(super) fn named(&self, name: &str) -> Option<Arc<dyn RestoreItemAction>> {
        self.all.iter().find(|one| one.action.name() == name).map(|one| one.action.clone())
    }

    /// The actions for a type.
    pub(super) fn for_type(&self, resource: &GroupResource) -> Arc<Vec<Applicable>> {
        let mut known = locked(&self.for_types);
        if let Some(found) = known.get(resource) {
            return found.clone();
        }
        let fitting = self.all.iter().filter(|one| one.applies.is_for_type(resource));
        let found = Arc::new(fitting.cloned().map(Applicable).collect::<Vec<_>>());
        known.insert(resource.clone(), found.clone());
        found
    }
}

/// The item that actions run for.
pub(super) struct Acted<'a> {
    pub(super) handler: &'a VeleroHandler,
    pub(super) run: &'a Arc<Run>,
    pub(super) item: &'a WorkItem,
    /// The item as it is in the backup.
    pub(super) from_backup: &'a Value,
}

/// Runs every action that applies to the item, in order. An error ends the item: an action left it out, or failed.
pub(super) async fn run(
    acted: &Acted<'_>,
    applicable: &[Applicable],
    object: &mut Value,
    notes: &mut Notes,
) -> Result<(), ItemOutcome> {
    let Acted { handler, run, item, from_backup } = acted;
    if operations::were_done(handler, run, item, object, notes).await {
        return Ok(());
    }
    for one in applicable {
        if one.is_for(item.target.as_deref(), object) && !has_no_data(handler, one, from_backup) {
            let outcome = execute(acted, one, object, notes).await?;
            additional(acted, one, outcome, object, notes).await;
        }
    }
    Ok(())
}

/// Runs one action; `object` is then the action's result.
async fn execute(
    acted: &Acted<'_>,
    one: &Applicable,
    object: &mut Value,
    notes: &mut Notes,
) -> Result<RestoreOutcome, ItemOutcome> {
    let Acted { handler, item, from_backup, .. } = acted;
    let call = operations::Call::begin(handler, item, one.0.action.as_ref(), notes).await;
    let input = RestoreInput {
        item: std::mem::take(object),
        from_backup,
        restore: &handler.restore,
        backup: handler.archive.as_ref(),
        intent: handler.intent(),
    };
    let made = one.execute(input, &handler.lookup, handler.times.action).await;
    if let Some(call) = call {
        call.end(made.as_ref().ok().and_then(|made| made.operation_id.as_deref()), notes).await;
    }
    let wrong =
        |message: &str| format!("error preparing {}: action {}{message}", item.resource_id(), one.name());
    let mut outcome = made.map_err(|error| notes.fail(wrong(&format!(": {error}"))))?;
    if outcome.skip {
        return Err(ItemOutcome::Skipped(SkipReason::LeftOutByAction(one.name().to_owned())));
    }
    if outcome.fills_claim {
        handler.fills(item);
    }
    *object = std::mem::take(&mut outcome.item);
    if !object["metadata"].is_object() {
        return Err(notes.fail(wrong(" returned something that is not an object")));
    }
    Ok(outcome)
}

/// Whether an action would restore data that could not be backed up: the claim is then restored without it, and the
/// restore reports the missing data.
fn has_no_data(handler: &VeleroHandler, one: &Applicable, from_backup: &Value) -> bool {
    one.0.action.restores_volume_data()
        && volumes::bound_to(from_backup)
            .is_some_and(|volume| handler.volumes.get(&volume.name) == Some(&DataIn::Failed))
}

impl Applicable {
    pub(super) fn name(&self) -> &str {
        self.0.action.name()
    }

    pub(super) fn is_for(&self, namespace: Option<&str>, object: &Value) -> bool {
        if !self.0.applies.asks_for_labels() {
            return self.0.applies.is_for_item(namespace, &BTreeMap::new());
        }
        let labels = object.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
        let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        self.0.applies.is_for_item(namespace, &labels.collect())
    }

    /// Runs the action, at most as long as an operation that it might start.
    pub(super) async fn execute(
        &self,
        input: RestoreInput<'_>,
        cluster: &dyn Lookup,
        limit: Duration,
    ) -> Result<RestoreOutcome, ActionError> {
        match timeout(limit, self.0.action.execute(input, cluster)).await {
            Ok(outcome) => outcome,
            Err(_elapsed) => Err(ActionError::Failed(format!(
                "action {} did not end in time (spec.itemOperationTimeout)",
                self.name()
            ))),
        }
    }
}

/// Restores the additional items of the action, and waits until they are ready if the action asks for it.
async fn additional(
    acted: &Acted<'_>,
    one: &Applicable,
    outcome: RestoreOutcome,
    object: &mut Value,
    notes: &mut Notes,
) {
    let Acted { handler, item, .. } = acted;
    let annotation = object.pointer("/metadata/annotations").and_then(|all| all.get(MUST_INCLUDE));
    let must_include = annotation.and_then(Value::as_str) == Some("true");
    if annotation.is_some() {
        remove_annotations(object, &[MUST_INCLUDE]);
    }
    let request = Request::Additional { must_include };
    let there = restore_all(acted, outcome.additional_items, request, notes).await;
    if outcome.wait_for_additional_items {
        let own = outcome.ready_timeout.filter(|limit| !limit.is_zero());
        let limit = own.unwrap_or(handler.times.ready);
        if let Err(error) = await_ready(acted, one.0.action.as_ref(), &there, limit).await {
            notes.error(format!(
                "error verifying additional items are ready to use: {error} (action {} for {}, which was then restored all the same)",
                one.name(),
                item.resource_id()
            ));
        }
    }
}

/// Restores additional items one after the other; returns those that exist in the cluster afterwards.
async fn restore_all(
    acted: &Acted<'_>,
    items: Vec<ItemId>,
    request: Request,
    notes: &mut Notes,
) -> Vec<ItemId> {
    let Acted { run, item, .. } = acted;
    let (mut there, mut missing) = (Vec::new(), 0);
    for id in items {
        let Some(other) = run.work_of(&id) else {
            missing += 1;
            if missing <= MOST_NAMED {
                notes.warn(format!(
                    "unable to restore additional item {id} of {}: it is not in the backup",
                    item.id
                ));
            }
            continue;
        };
        if run.restore_additional(item, other, request).await {
            there.push(id);
        }
    }
    if missing > MOST_NAMED {
        let more = missing - MOST_NAMED;
        notes.warn(format!("{more} more additional items of {} are not in the backup", item.id));
    }
    there
}
