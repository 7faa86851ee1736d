//! Operations that actions start for an item: recorded in the journal, and continued after a restart instead of
//! started again.
//!
//! If an item exists in the cluster and was created by this restore, all of its actions ran: its operations are
//! adopted, and no action is called for it again. If it does not exist, its actions are called again, after their
//! operations were cancelled. If a call was interrupted and it is unknown whether it started an operation, that is an
//! error of the restore.

use lifeboat_api::common::Time;
use lifeboat_archive::documents::{OperationPhase, OperationStatus, RestoreOperation, RestoreOperationSpec};
use lifeboat_plan::catalogue::ItemId;
use lifeboat_plugin::actions::RestoreItemAction;
use serde_json::Value;
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

use super::journal::Habit;
use super::{Live, VeleroHandler};
use crate::operations::ANSWER;
use lifeboat_items::outcome::Notes;
use lifeboat_items::pipeline::item::WorkItem;
use lifeboat_items::pipeline::run::Run;
use lifeboat_items::pipeline::target::target;

/// A call of an action that may start an operation.
pub(super) struct Call<'a> {
    live: &'a Live,
    operation: RestoreOperation,
    /// Whether the call was recorded before it was made.
    is_noted: bool,
    /// Held by the first call for a type: other calls wait for its result.
    first: Option<OwnedMutexGuard<Habit>>,
}

impl<'a> Call<'a> {
    /// Records the call, if it may start an operation as far as is known. None in a dry run, which starts no
    /// operations.
    pub(super) async fn begin(
        handler: &'a VeleroHandler,
        item: &WorkItem,
        action: &dyn RestoreItemAction,
        notes: &mut Notes,
    ) -> Option<Self> {
        let live = handler.live.as_ref()?;
        let operation = operation_of(handler, item, action.name());
        let mut call = Self { live, operation, is_noted: false, first: None };
        if !action.may_operate() {
            return Some(call);
        }
        let habit = live.journal.habit(&call.operation).lock_owned().await;
        call.is_noted = *habit != Habit::Quiet;
        call.first = (*habit == Habit::Unknown).then_some(habit);
        if call.is_noted
            && let Err(error) = live.journal.note(&call.operation).await
        {
            notes.warn(format!(
                "the call of action {} for {} was not recorded, and would be repeated if the server restarted in the meantime: {error}",
                action.name(),
                item.resource_id()
            ));
        }
        Some(call)
    }

    /// Called when the action has answered; `id` is the operation that it started.
    pub(super) async fn end(mut self, id: Option<&str>, notes: &mut Notes) {
        let Some(id) = id.filter(|id| !id.is_empty()) else {
            if let Some(habit) = &mut self.first {
                **habit = Habit::Quiet;
            }
            if self.is_noted {
                self.live.journal.forget(&self.operation).await;
            }
            return;
        };
        id.clone_into(&mut self.operation.spec.operation_id);
        match &mut self.first {
            Some(habit) => **habit = Habit::Operating,
            None => *self.live.journal.habit(&self.operation).lock().await = Habit::Operating,
        }
        if let Err(error) = self.live.journal.note(&self.operation).await {
            let item = ItemId::from(self.operation.spec.resource_identifier.clone());
            notes.warn(format!(
                "operation {id} of action {} for {item} was not recorded, and would be started again if the server restarted now: {error}",
                self.operation.spec.restore_item_action
            ));
        }
        self.live.report.operation(self.operation);
    }
}

/// Whether an earlier attempt ran all actions of an item and created it; its operations are then adopted. Otherwise
/// the operations of that attempt are cancelled.
pub(super) async fn were_done(
    handler: &VeleroHandler,
    run: &Run,
    item: &WorkItem,
    object: &Value,
    notes: &mut Notes,
) -> bool {
    let begun = handler.begun.of(&item.in_cluster());
    let Some(live) = handler.live.as_ref().filter(|_| !begun.is_empty()) else { return false };
    let known = begun.iter().filter(|one| !one.spec.operation_id.is_empty());
    if is_there(handler, run, item, object).await {
        let message = "its operations were started before the server was restarted, and continue";
        run.recorder.info(message, Some(&item.id));
        for operation in known {
            let action = handler.actions.named(&operation.spec.restore_item_action);
            if action.is_some_and(|action| action.restores_volume_data()) {
                handler.fills(item);
            }
            live.report.operation(operation.clone());
        }
        return true;
    }
    for operation in known {
        cancel(handler, live, item, operation, notes).await;
    }
    for call in begun.iter().filter(|one| one.spec.operation_id.is_empty()) {
        notes.error(format!(
            "action {} was being called for {} when the server was restarted, and was called again; it is unknown whether an operation of the first call is still running",
            call.spec.restore_item_action,
            item.resource_id()
        ));
    }
    false
}

async fn is_there(handler: &VeleroHandler, run: &Run, item: &WorkItem, object: &Value) -> bool {
    let Ok(target) = target(run, item, object) else { return false };
    let found = run.effects.get(&target).await.ok().flatten();
    found.is_some_and(|found| handler.made(&found))
}

async fn cancel(
    handler: &VeleroHandler,
    live: &Live,
    item: &WorkItem,
    operation: &RestoreOperation,
    notes: &mut Notes,
) {
    let (id, action) = (&operation.spec.operation_id, &operation.spec.restore_item_action);
    let problem = match handler.actions.named(action) {
        None => "the action is not installed".to_owned(),
        Some(known) => match timeout(ANSWER, known.cancel(id, &handler.restore)).await {
            Ok(Ok(())) => {
                let message =
                    format!("operation {id} of an earlier attempt was cancelled; it is started again");
                live.report.log_item(&message, &item.id);
                live.journal.forget(operation).await;
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_elapsed) => "no answer in time".to_owned(),
        },
    };
    notes.error(format!(
        "operation {id} of action {action} for {} was running when the server was restarted, and could not be cancelled before it was started again: {problem}",
        item.resource_id()
    ));
}

fn operation_of(handler: &VeleroHandler, item: &WorkItem, action: &str) -> RestoreOperation {
    RestoreOperation {
        spec: RestoreOperationSpec {
            restore_name: handler.name().to_owned(),
            restore_uid: handler.restore.metadata.uid.clone().unwrap_or_default(),
            restore_item_action: action.to_owned(),
            resource_identifier: (&item.in_cluster()).into(),
            operation_id: String::new(),
        },
        status: OperationStatus {
            phase: OperationPhase::New,
            created: Some(Time(handler.clock.now())),
            ..OperationStatus::default()
        },
    }
}
