//! Operations that actions begin for an item: noted in the journal, and after a restart gone on with instead of begun again.
//!
//! An item that is in the cluster as this restore's had all of its actions: its operations are taken over, and no action is
//! called for it again. Of one that is not there the actions are called again, after their operations were cancelled. Where a
//! call was under way and nobody knows whether it began something, that is an error of the restore.

use std::sync::Arc;

use lifeboat_api::common::Time;
use lifeboat_archive::documents::{OperationPhase, OperationStatus, RestoreOperation, RestoreOperationSpec};
use lifeboat_plan::catalogue::ItemId;
use lifeboat_plan::csi::CLAIM_RESTORER;
use lifeboat_plan::restore::existing::is_ours;
use lifeboat_plugin::actions::RestoreItemAction;
use serde_json::Value;
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

use super::journal::Habit;
use super::report::Notes;
use crate::items::apply::target;
use crate::items::existing::is_new;
use crate::items::item::Subject;
use crate::items::run::Run;
use crate::operations::ANSWER;

/// A call of an action that may begin an operation.
pub(crate) struct Call {
    operation: RestoreOperation,
    /// Whether it was noted before it was made.
    is_noted: bool,
    /// Held by the first call for a type: others wait for what it shows.
    first: Option<OwnedMutexGuard<Habit>>,
}

impl Call {
    /// Notes the call, where it may begin an operation as far as anybody knows.
    pub(crate) async fn begin(
        run: &Run,
        subject: &Subject,
        action: &dyn RestoreItemAction,
        notes: &mut Notes,
    ) -> Self {
        let mut call =
            Self { operation: operation_of(run, subject, action.name()), is_noted: false, first: None };
        if !action.may_operate() {
            return call;
        }
        let habit = run.journal.habit(&call.operation).lock_owned().await;
        call.is_noted = *habit != Habit::Quiet;
        call.first = (*habit == Habit::Unknown).then_some(habit);
        if call.is_noted
            && let Err(words) = run.journal.note(&call.operation).await
        {
            notes.warn(format!(
                "the call of action {} for {} was not noted, and would be made again if the server were restarted meanwhile: {words}",
                action.name(),
                subject.resource_id()
            ));
        }
        call
    }

    /// The action has answered; `id` is what it began.
    pub(crate) async fn end(mut self, run: &Run, id: Option<&str>, notes: &mut Notes) {
        let Some(id) = id.filter(|id| !id.is_empty()) else {
            if let Some(habit) = &mut self.first {
                **habit = Habit::Quiet;
            }
            if self.is_noted {
                run.journal.forget(&self.operation).await;
            }
            return;
        };
        id.clone_into(&mut self.operation.spec.operation_id);
        match &mut self.first {
            Some(habit) => **habit = Habit::Operating,
            None => *run.journal.habit(&self.operation).lock().await = Habit::Operating,
        }
        if let Err(words) = run.journal.note(&self.operation).await {
            let item = ItemId::from(self.operation.spec.resource_identifier.clone());
            notes.warn(format!(
                "operation {id} of action {} for {item} was not noted, and would be begun again if the server were restarted now: {words}",
                self.operation.spec.restore_item_action
            ));
        }
        run.report.operation(self.operation);
    }
}

/// Whether an earlier attempt ran all actions of an item that began operations, and created it; they are taken over then. Else
/// what that attempt began is cancelled.
pub(crate) async fn were_done(run: &Arc<Run>, subject: &Subject, object: &Value, notes: &mut Notes) -> bool {
    let begun = run.begun.of(&in_cluster(subject));
    if begun.is_empty() {
        return false;
    }
    let known = begun.iter().filter(|one| !one.spec.operation_id.is_empty());
    if is_there(run, subject, object).await {
        run.report.info("its operations had begun before the server was restarted; they go on", &subject.id);
        for operation in known {
            if operation.spec.restore_item_action == CLAIM_RESTORER {
                run.fills(subject);
            }
            run.report.operation(operation.clone());
        }
        return true;
    }
    for operation in known {
        cancel(run, subject, operation, notes).await;
    }
    for call in begun.iter().filter(|one| one.spec.operation_id.is_empty()) {
        notes.error(format!(
            "action {} was being called for {} when the server was restarted, and was called again; whether an operation of the first call goes on is not known",
            call.spec.restore_item_action,
            subject.resource_id()
        ));
    }
    false
}

async fn is_there(run: &Run, subject: &Subject, object: &Value) -> bool {
    let Ok(target) = target(&run.catalogue, &run.spool, subject, object) else { return false };
    let found = run.writer.get(&target).await.ok().flatten();
    found.is_some_and(|found| is_ours(&found, run.name()) && is_new(run, &found))
}

async fn cancel(run: &Run, subject: &Subject, operation: &RestoreOperation, notes: &mut Notes) {
    let (id, action) = (&operation.spec.operation_id, &operation.spec.restore_item_action);
    let problem = match run.actions.named(action) {
        None => "the action is not installed".to_owned(),
        Some(known) => match timeout(ANSWER, known.cancel(id, &run.restore)).await {
            Ok(Ok(())) => {
                let words = format!("operation {id} of an earlier attempt was cancelled; it is begun anew");
                run.report.info(&words, &subject.id);
                run.journal.forget(operation).await;
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_elapsed) => "no answer in time".to_owned(),
        },
    };
    notes.error(format!(
        "operation {id} of action {action} for {} had begun when the server was restarted, and could not be cancelled before it was begun anew: {problem}",
        subject.resource_id()
    ));
}

/// The item as it is called in the cluster.
fn in_cluster(subject: &Subject) -> ItemId {
    let mut id = subject.id.clone();
    id.namespace.clone_from(&subject.target);
    id
}

fn operation_of(run: &Run, subject: &Subject, action: &str) -> RestoreOperation {
    RestoreOperation {
        spec: RestoreOperationSpec {
            restore_name: run.name().to_owned(),
            restore_uid: run.restore.metadata.uid.clone().unwrap_or_default(),
            restore_item_action: action.to_owned(),
            resource_identifier: (&in_cluster(subject)).into(),
            operation_id: String::new(),
        },
        status: OperationStatus {
            phase: OperationPhase::New,
            created: Some(Time(jiff::Timestamp::now())),
            ..OperationStatus::default()
        },
    }
}
