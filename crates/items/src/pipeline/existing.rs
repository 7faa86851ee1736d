//! An object that exists in the cluster already: if it is being deleted, the restore waits; if this restore created
//! it, the restore continues with it; any other is compared and handled by the Restore's existing resource policy.

use std::sync::Arc;

use lifeboat_cluster::ApiError;
use lifeboat_cluster::write::{Answer, Target, is_terminating};
use lifeboat_plan::items::existing::{Existing, compare};
use serde_json::Value;
use tokio::time::Instant;

use super::apply::cause;
use super::item::WorkItem;
use super::namespaces::already_exists;
use super::run::Run;
use crate::effects::Awaited;
use crate::outcome::{ItemOutcome, Notes};
use crate::pace::Pace;

/// A create request for an object that exists.
pub(super) struct Conflict<'a> {
    pub(super) item: &'a WorkItem,
    pub(super) target: &'a Target,
    pub(super) wanted: &'a Value,
    pub(super) error: ApiError,
}

/// How a conflict ended.
pub(super) struct Settled {
    pub(super) outcome: ItemOutcome,
    /// The object, if this restore created it.
    pub(super) ours: Option<Value>,
}

impl From<ItemOutcome> for Settled {
    fn from(outcome: ItemOutcome) -> Self {
        Self { outcome, ours: None }
    }
}

pub(super) async fn settle(run: &Arc<Run>, conflict: Conflict<'_>, notes: &mut Notes) -> Settled {
    let Conflict { item, target, wanted, error } = conflict;
    let (start, mut pace) = (Instant::now(), Pace::default());
    loop {
        let found = match run.effects.get(target).await {
            Ok(found) => found,
            Err(_) if !already_exists(&error) => None,
            // It is unknown whether the existing object is the one of the backup, and it was not updated where that was asked
            // for.
            Err(error) => {
                let message = format!(
                    "error restoring {}: it exists already, and the existing object cannot be read: {}",
                    item.resource_id(),
                    error.chain()
                );
                return notes.fail(message).into();
            }
        };
        match found {
            // For example a port that another service has, or a quota that is used up: this object does not exist.
            None if !already_exists(&error) => {
                return notes
                    .fail(format!("error restoring {}: {}", item.resource_id(), cause(&error)))
                    .into();
            }
            None => {
                if let Some(settled) = again(run, item, target, wanted, notes).await {
                    return settled;
                }
            }
            Some(found) if is_terminating(&found) && start.elapsed() < run.limits.terminating => {
                run.wait(item.work);
                run.effects.wait(Awaited::Gone(target), pace.pause()).await;
            }
            Some(found) if run.handler.is_ours(&found) => {
                return Settled { outcome: ItemOutcome::Created, ours: Some(found) };
            }
            Some(found) => return treat(run, target, found, wanted, notes).await.into(),
        }
    }
}

/// Creates the object again, because the existing one is gone. None: another client has created it in the meantime.
async fn again(
    run: &Run,
    item: &WorkItem,
    target: &Target,
    wanted: &Value,
    notes: &mut Notes,
) -> Option<Settled> {
    match run.effects.create(target, wanted, Answer::Object).await {
        Ok(made) => Some(Settled { outcome: ItemOutcome::Created, ours: Some(made) }),
        Err(error) if already_exists(&error) => None,
        Err(error) => {
            let message = format!("error restoring {}: {}", item.resource_id(), cause(&error));
            Some(notes.fail(message).into())
        }
    }
}

async fn treat(run: &Run, target: &Target, found: Value, wanted: &Value, notes: &mut Notes) -> ItemOutcome {
    match compare(found, wanted, run.rules.existing, run.rules.own_labels) {
        Existing::Same => ItemOutcome::Same,
        Existing::Different { warning } => ItemOutcome::Different { warning },
        Existing::Labels { patch } => match run.effects.merge(target, None, &patch).await {
            Ok(()) => ItemOutcome::Labelled,
            Err(error) => {
                notes.error(error.chain());
                ItemOutcome::NotUpdated
            }
        },
        Existing::Merge { patch, labels } => match run.effects.merge(target, None, &patch).await {
            Ok(()) => ItemOutcome::Updated,
            Err(error) => {
                notes.warn(error.chain());
                if let Some(labels) = labels
                    && let Err(error) = run.effects.merge(target, None, &labels).await
                {
                    notes.error(error.chain());
                }
                ItemOutcome::NotUpdated
            }
        },
    }
}
