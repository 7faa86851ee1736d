//! Runs the restore item actions over an item, and restores what they ask for first. An action that asks to wait for its
//! additional items takes the item out of its barrier.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lifeboat_api::common::GoDuration;
use lifeboat_plan::catalogue::{Catalogue, GroupResource, ItemId};
use lifeboat_plan::csi::CLAIM_RESTORER;
use lifeboat_plan::data_movement::{NO_UPLOAD, UPLOAD, UPLOAD_NAME};
use lifeboat_plan::restore::sanitise::remove_annotations;
use lifeboat_plan::restore::scheduler::Need;
use lifeboat_plan::restore::volumes::DataIn;
use lifeboat_plugin::actions::{ActionError, Lookup, RestoreInput, RestoreItemAction, RestoreOutcome};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::report::Notes;
use super::{operations, volumes};
use crate::applying::{Applying, applying};
use crate::items::item::{self, Subject};
use crate::items::pace::Pace;
use crate::items::run::{Asked, Run, locked};

/// Annotation that an action sets on its item: no filter counts for the additional items.
const MUST_INCLUDE: &str = "restore.velero.io/must-include-additional-items";

/// An additional item that is not in the backup is named so often for each call.
const MOST_NAMED: usize = 10;
/// An item whose action does not answer for so long leaves its barrier.
const SOON: Duration = Duration::from_millis(200);

/// Whatever a plugin says, nobody waits longer; and clocks end somewhere.
const LONGEST_WAIT: Duration = Duration::from_hours(24 * 30);

/// All actions, and which item they are for.
#[derive(Default)]
pub(crate) struct Actions {
    all: Vec<Arc<Applying<dyn RestoreItemAction>>>,
    for_types: Mutex<BTreeMap<GroupResource, Arc<Vec<Applicable>>>>,
}

/// An action that is for a type; what is left to ask of each item.
pub(crate) struct Applicable(Arc<Applying<dyn RestoreItemAction>>);

impl Actions {
    /// Asks each what it is for; gives also why some are left out.
    pub(crate) async fn ask(
        actions: &[Arc<dyn RestoreItemAction>],
        catalogue: &Catalogue,
    ) -> (Self, Vec<String>) {
        let (all, left_out) = applying(actions, catalogue).await;
        (Self { all: all.into_iter().map(Arc::new).collect(), for_types: Mutex::default() }, left_out)
    }

    /// The action of this name.
    pub(crate) fn named(&self, name: &str) -> Option<Arc<dyn RestoreItemAction>> {
        self.all.iter().find(|one| one.action.name() == name).map(|one| one.action.clone())
    }

    /// The actions for a type.
    pub(crate) fn for_type(&self, resource: &GroupResource) -> Arc<Vec<Applicable>> {
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

/// Whether the item goes on after the actions.
pub(crate) enum After {
    GoesOn,
    /// An action left it out, or failed.
    Stops,
}

/// Runs every action that is for the item, in order.
pub(crate) async fn run(run: &Arc<Run>, subject: &Subject, object: &mut Value, notes: &mut Notes) -> After {
    let applicable = run.actions.for_type(&subject.id.resource);
    if applicable.is_empty() || operations::were_done(run, subject, object, notes).await {
        return After::GoesOn;
    }
    let Some(from_backup) = subject.original(run).await else { return After::Stops };
    let from_backup = subject.without_hooks(run, from_backup);
    for one in applicable.iter() {
        if !one.is_for(subject.target.as_deref(), object) || is_hopeless(run, one.name(), &from_backup) {
            continue;
        }
        if one.name() == CLAIM_RESTORER {
            with_upload(run, &from_backup, object).await;
        }
        let call = operations::Call::begin(run, subject, one.0.action.as_ref(), notes).await;
        let input =
            RestoreInput { item: std::mem::take(object), from_backup: &from_backup, restore: &run.restore };
        let made = one.execute(input, &run.lookup, run.times.action).await;
        call.end(run, made.as_ref().ok().and_then(|made| made.operation_id.as_deref()), notes).await;
        let mut outcome = match made {
            Ok(outcome) => outcome,
            Err(error) => {
                notes.error(format!(
                    "error preparing {}: action {}: {error}",
                    subject.resource_id(),
                    one.name()
                ));
                return After::Stops;
            }
        };
        if outcome.skip {
            run.report.info(&format!("left out by action {}", one.name()), &subject.id);
            return After::Stops;
        }
        if one.name() == CLAIM_RESTORER
            && (!outcome.additional_items.is_empty() || outcome.operation_id.is_some())
        {
            run.fills(subject);
        }
        *object = std::mem::take(&mut outcome.item);
        if !object["metadata"].is_object() {
            notes.error(format!(
                "error preparing {}: action {} gave back something that is no object",
                subject.resource_id(),
                one.name()
            ));
            return After::Stops;
        }
        additional(run, subject, one, outcome, object, notes).await;
    }
    After::GoesOn
}

/// Puts the DataUpload that moved a claim's data beside the claim, for its action.
async fn with_upload(run: &Run, from_backup: &Value, object: &mut Value) {
    let Some(name) = from_backup["metadata"]["annotations"][UPLOAD_NAME].as_str() else { return };
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    let id = ItemId::namespaced(GroupResource::new("velero.io", "datauploads"), namespace, name);
    let stored = match run.spool.find(&id) {
        Some(place) => run.spool.get(place).await.ok(),
        None => None,
    };
    let upload = stored.and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
    object["metadata"]["annotations"][UPLOAD] = Value::String(upload.unwrap_or_else(|| NO_UPLOAD.to_owned()));
}

/// Whether an action would bring back a CSI snapshot that came to nothing: the claim is then restored without it, and what
/// is missing is told.
fn is_hopeless(run: &Run, action: &str, from_backup: &Value) -> bool {
    action == CLAIM_RESTORER
        && volumes::bound_to(from_backup)
            .is_some_and(|volume| run.volumes.get(&volume.name) == Some(&DataIn::Failed))
}

impl Applicable {
    pub(crate) fn name(&self) -> &str {
        self.0.action.name()
    }

    pub(crate) fn is_for(&self, namespace: Option<&str>, object: &Value) -> bool {
        if !self.0.applies.asks_for_labels() {
            return self.0.applies.is_for_item(namespace, &BTreeMap::new());
        }
        let labels = object.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
        let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        self.0.applies.is_for_item(namespace, &labels.collect())
    }

    /// Runs it, at most as long as an operation that it would begin.
    pub(crate) async fn execute(
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
    let (mut there, mut missing) = (Vec::new(), 0);
    for id in outcome.additional_items {
        let Some(other) = run.work_of(&id) else {
            missing += 1;
            if missing <= MOST_NAMED {
                notes.warn(format!(
                    "unable to restore additional item {id} of {}: it is not in the backup",
                    subject.id
                ));
            }
            continue;
        };
        if restore_additional(run, subject, other, asked).await {
            there.push(id);
        }
    }
    if missing > MOST_NAMED {
        let more = missing - MOST_NAMED;
        notes.warn(format!("{more} more additional items of {} are not in the backup", subject.id));
    }
    if outcome.wait_for_additional_items {
        let limit = outcome
            .ready_timeout
            .filter(|limit| !limit.is_zero())
            .unwrap_or(run.times.ready)
            .min(LONGEST_WAIT);
        if let Err(words) = await_ready(run, subject, one, &there, limit).await {
            notes.error(format!(
                "error verifying additional items are ready to use: {words} (action {} for {}, which was then restored all the same)",
                one.name(),
                subject.resource_id()
            ));
        }
    }
}

/// Whether the additional item is in the cluster afterwards.
async fn restore_additional(run: &Arc<Run>, subject: &Subject, other: usize, asked: Asked) -> bool {
    match run.need(subject.work, other) {
        Need::Done => {}
        Need::Start => {
            // A task of its own, which ends with this one: a chain of items, each of which names the next, may be long.
            let mut task = JoinSet::new();
            task.spawn(item::process(run.clone(), other, asked));
            task.join_next().await;
        }
        Need::Wait => run.ended(other).await,
        Need::Circle => {
            run.report.info("an additional item waits for this item itself; going on", &subject.id);
            return false;
        }
    }
    run.exists(other)
}

/// Asks until the answer is yes, at most for `limit`. The item leaves its barrier when the first answer is no, or does not come.
async fn await_ready(
    run: &Arc<Run>,
    subject: &Subject,
    one: &Applicable,
    items: &[ItemId],
    limit: Duration,
) -> Result<(), String> {
    let (start, mut pace, mut waiting) = (Instant::now(), Pace::default(), None);
    let until = start + limit;
    let begin = || {
        let things: Vec<String> = items.iter().map(ToString::to_string).collect();
        run.waiting(subject, &things, one.name())
    };
    loop {
        let asked = timeout_at(until, one.0.action.are_ready(items, &run.restore, &run.lookup));
        tokio::pin!(asked);
        let answer = tokio::select! {
            biased;
            answer = &mut asked => answer,
            () = sleep(SOON), if waiting.is_none() => {
                waiting = Some(begin());
                asked.await
            }
        };
        match answer {
            Ok(Ok(true)) if waiting.is_none() => return Ok(()),
            Ok(Ok(true)) => {
                let waited = GoDuration::from(Duration::from_secs(start.elapsed().as_secs()));
                run.report.info(&format!("its additional items are ready after {waited}"), &subject.id);
                return Ok(());
            }
            Ok(Ok(false)) => {}
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_elapsed) => return Err(late(items, limit)),
        }
        waiting.get_or_insert_with(&begin);
        if Instant::now() >= until {
            return Err(late(items, limit));
        }
        sleep(pace.next().min(until.saturating_duration_since(Instant::now()))).await;
    }
}

/// Upstream's words, and what was waited for.
fn late(items: &[ItemId], limit: Duration) -> String {
    let named: Vec<String> = items.iter().take(MOST_NAMED).map(ToString::to_string).collect();
    let more = if items.len() > named.len() { ", …" } else { "" };
    format!(
        "context deadline exceeded: not ready after {}: {}{more}",
        GoDuration::from(limit),
        named.join(", ")
    )
}
