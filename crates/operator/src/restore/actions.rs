//! Runs the restore item actions over an item, and restores what they ask for first. An action that asks to wait for its
//! additional items takes the item out of its barrier.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lifeboat_api::common::Time;
use lifeboat_archive::documents::{OperationPhase, OperationStatus, RestoreOperation, RestoreOperationSpec};
use lifeboat_plan::catalogue::{Catalogue, GroupResource, ItemId};
use lifeboat_plan::restore::sanitise::remove_annotations;
use lifeboat_plan::restore::scheduler::Need;
use lifeboat_plugin::Applies;
use lifeboat_plugin::actions::{ActionError, Lookup, RestoreInput, RestoreItemAction, RestoreOutcome};
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::item::{self, Subject};
use super::ready::Pace;
use super::report::Notes;
use super::run::{Asked, Run, locked};
use crate::operations::ANSWER;

/// Annotation that an action sets on its item: no filter counts for the additional items.
const MUST_INCLUDE: &str = "restore.velero.io/must-include-additional-items";

/// All actions, and what is known of which item they are for.
pub(super) struct Actions {
    all: Vec<Arc<dyn RestoreItemAction>>,
    /// What each says of itself, once it was asked.
    applies: OnceCell<Vec<Arc<Applies>>>,
    for_types: Mutex<BTreeMap<GroupResource, Arc<Vec<Applicable>>>>,
}

/// An action that is for a type; what is left to ask of each item.
pub(super) struct Applicable {
    pub(super) action: Arc<dyn RestoreItemAction>,
    applies: Arc<Applies>,
}

impl Actions {
    pub(super) fn new(actions: Vec<Arc<dyn RestoreItemAction>>) -> Self {
        Self { all: actions, applies: OnceCell::new(), for_types: Mutex::default() }
    }

    /// The actions for a type. What an action says of itself is asked once.
    pub(super) async fn for_type(
        &self,
        resource: &GroupResource,
        catalogue: &Catalogue,
    ) -> Result<Arc<Vec<Applicable>>, String> {
        if let Some(known) = locked(&self.for_types).get(resource) {
            return Ok(known.clone());
        }
        let applies = self.applies.get_or_try_init(|| self.ask(catalogue)).await?;
        let fitting = self.all.iter().zip(applies).filter(|(_, applies)| applies.is_for_type(resource));
        let found: Vec<Applicable> = fitting
            .map(|(action, applies)| Applicable { action: action.clone(), applies: applies.clone() })
            .collect();
        let found = Arc::new(found);
        locked(&self.for_types).insert(resource.clone(), found.clone());
        Ok(found)
    }

    async fn ask(&self, catalogue: &Catalogue) -> Result<Vec<Arc<Applies>>, String> {
        let mut found = Vec::new();
        for action in &self.all {
            let name = action.name();
            let answer = timeout(ANSWER, action.applies_to()).await;
            let answer = answer.map_err(|_elapsed| {
                format!("action {name} did not say in time which items it is for; see its plugin's log")
            })?;
            let applies = answer.and_then(|applies| Applies::new(name, &applies, catalogue));
            found.push(Arc::new(applies.map_err(|error| format!("action {name}: {error}"))?));
        }
        Ok(found)
    }
}

/// Whether the item goes on after the actions.
pub(super) enum After {
    GoesOn,
    /// An action left it out, or failed.
    Stops,
}

/// Runs every action that is for the item, in order.
pub(super) async fn run(run: &Arc<Run>, subject: &Subject, object: &mut Value, notes: &mut Notes) -> After {
    let applicable = match run.actions.for_type(&subject.id.resource, &run.catalogue).await {
        Ok(found) => found,
        Err(words) => {
            notes.error(format!("error preparing {}: {words}", subject.resource_id()));
            return After::Stops;
        }
    };
    if applicable.is_empty() {
        return After::GoesOn;
    }
    let Some(from_backup) = subject.original(run).await else { return After::Stops };
    let from_backup = subject.without_hooks(run, from_backup);
    for one in applicable.iter() {
        if !one.is_for(subject.target.as_deref(), object) {
            continue;
        }
        let input =
            RestoreInput { item: std::mem::take(object), from_backup: &from_backup, restore: &run.restore };
        let mut outcome = match one.execute(input, &run.lookup, run.times.action).await {
            Ok(outcome) => outcome,
            Err(error) => {
                notes.error(format!("error preparing {}: {error}", subject.resource_id()));
                return After::Stops;
            }
        };
        if let Some(operation) = &outcome.operation_id {
            run.report.operation(operation_of(run, subject, one.action.name(), operation));
        }
        if outcome.skip {
            run.report.info("left out by an action", &subject.id);
            return After::Stops;
        }
        *object = std::mem::take(&mut outcome.item);
        additional(run, subject, one, outcome, object, notes).await;
    }
    After::GoesOn
}

impl Applicable {
    pub(super) fn is_for(&self, namespace: Option<&str>, object: &Value) -> bool {
        if !self.applies.asks_for_labels() {
            return self.applies.is_for_item(namespace, &BTreeMap::new());
        }
        let labels = object.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
        let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        self.applies.is_for_item(namespace, &labels.collect())
    }

    /// Runs it, at most as long as an operation that it would begin.
    pub(super) async fn execute(
        &self,
        input: RestoreInput<'_>,
        cluster: &dyn Lookup,
        limit: Duration,
    ) -> Result<RestoreOutcome, ActionError> {
        match timeout(limit, self.action.execute(input, cluster)).await {
            Ok(outcome) => outcome,
            Err(_elapsed) => Err(ActionError::Failed(format!(
                "action {} did not end in time (spec.itemOperationTimeout)",
                self.action.name()
            ))),
        }
    }
}

/// Restores what the action asked for, and waits until it can be used where the action wants that.
async fn additional(
    run: &Arc<Run>,
    subject: &Subject,
    one: &Applicable,
    outcome: RestoreOutcome,
    object: &mut Value,
    notes: &mut Notes,
) {
    let annotation = object.pointer("/metadata/annotations").and_then(|all| all.get(MUST_INCLUDE));
    let must_include = annotation.and_then(Value::as_str) == Some("true");
    if annotation.is_some() {
        remove_annotations(object, &[MUST_INCLUDE]);
    }
    let asked = Asked { additional: true, must_include };
    let mut there = Vec::new();
    for id in outcome.additional_items {
        if restore_additional(run, subject, &id, asked, notes).await {
            there.push(id);
        }
    }
    if outcome.wait_for_additional_items {
        let limit = outcome.ready_timeout.filter(|limit| !limit.is_zero()).unwrap_or(run.times.ready);
        let until = Instant::now() + limit;
        if let Err(words) = await_ready(run, subject, one, &there, until).await {
            notes.error(format!("error verifying additional items are ready to use: {words}"));
        }
    }
}

/// Whether the additional item is in the cluster afterwards.
async fn restore_additional(
    run: &Arc<Run>,
    subject: &Subject,
    id: &ItemId,
    asked: Asked,
    notes: &mut Notes,
) -> bool {
    let Some(other) = run.work_of(id) else {
        notes.warn(format!(
            "unable to restore additional item {id} of {}: it is not in the backup",
            subject.id
        ));
        return false;
    };
    match run.need(subject.work, other) {
        Need::Done => {}
        Need::Start => item::process(run.clone(), other, asked).await,
        Need::Wait => run.ended(other).await,
        Need::Circle => {
            run.report.info("an additional item waits for this item itself; going on", &subject.id);
            return false;
        }
    }
    run.exists(other)
}

/// Asks until the answer is yes. The item leaves its barrier when the first answer is no.
async fn await_ready(
    run: &Arc<Run>,
    subject: &Subject,
    one: &Applicable,
    items: &[ItemId],
    until: Instant,
) -> Result<(), String> {
    let mut pace = Pace::default();
    loop {
        let asked = one.action.are_ready(items, &run.restore, &run.lookup);
        match timeout_at(until, asked).await {
            Ok(Ok(true)) => return Ok(()),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_elapsed) => return Err("context deadline exceeded".to_owned()),
        }
        run.wait(subject.work);
        if Instant::now() >= until {
            return Err("context deadline exceeded".to_owned());
        }
        sleep(pace.next().min(until.saturating_duration_since(Instant::now()))).await;
    }
}

fn operation_of(run: &Run, subject: &Subject, action: &str, operation: &str) -> RestoreOperation {
    let mut id = subject.id.clone();
    id.namespace.clone_from(&subject.target);
    RestoreOperation {
        spec: RestoreOperationSpec {
            restore_name: run.name().to_owned(),
            restore_uid: run.restore.metadata.uid.clone().unwrap_or_default(),
            restore_item_action: action.to_owned(),
            resource_identifier: (&id).into(),
            operation_id: operation.to_owned(),
        },
        status: OperationStatus {
            phase: OperationPhase::New,
            created: Some(Time(jiff::Timestamp::now())),
            ..OperationStatus::default()
        },
    }
}
