//! An object that is there already: one that is going is waited for, one of ours is gone on with, any other is compared and
//! treated as the Restore says.

use std::sync::Arc;

use lifeboat_archive::documents::RestoreAction;
use lifeboat_cluster::ApiError;
use lifeboat_cluster::write::{Answer, Target, is_terminating};
use lifeboat_plan::restore::existing::{self, Existing, compare, is_ours};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::apply::words;
use super::item::Subject;
use super::namespaces::exists;
use super::pace::Pace;
use super::run::Run;
use crate::restore::handler::report::Notes;

/// A create that met an existing object.
pub(crate) struct Met<'a> {
    pub(crate) subject: &'a Subject,
    pub(crate) target: &'a Target,
    pub(crate) wanted: &'a Value,
    pub(crate) error: ApiError,
}

/// How it ended.
#[derive(Default)]
pub(crate) struct Settled {
    pub(crate) exists: bool,
    /// The object, where this restore made it.
    pub(crate) ours: Option<Value>,
}

pub(crate) async fn settle(run: &Arc<Run>, met: Met<'_>, notes: &mut Notes) -> Settled {
    let Met { subject, target, wanted, error } = met;
    let (start, mut pace) = (Instant::now(), Pace::default());
    loop {
        let found = match run.writer.get(target).await {
            Ok(found) => found,
            Err(_) if !exists(&error) => None,
            Err(error) => {
                notes.warn(error.chain());
                return Settled::default();
            }
        };
        match found {
            // A port that another service has, a quota that is used up: this one is not there.
            None if !exists(&error) => {
                notes.error(format!("error restoring {}: {}", subject.resource_id(), words(&error)));
                return Settled::default();
            }
            None => {
                if let Some(settled) = again(run, subject, target, wanted, notes).await {
                    return settled;
                }
            }
            Some(found) if is_terminating(&found) && start.elapsed() < run.times.terminating => {
                run.wait(subject.work);
                sleep(pace.next()).await;
            }
            Some(found) if is_ours(&found, run.name()) && is_new(run, &found) => {
                notes.action = Some(RestoreAction::Created);
                return Settled { exists: true, ours: Some(found) };
            }
            Some(found) => {
                treat(run, target, found, wanted, notes).await;
                return Settled { exists: true, ours: None };
            }
        }
    }
}

/// It was there and is gone. None: somebody made it once more.
async fn again(
    run: &Run,
    subject: &Subject,
    target: &Target,
    wanted: &Value,
    notes: &mut Notes,
) -> Option<Settled> {
    let body = serde_json::to_vec(wanted).unwrap_or_default();
    match run.writer.create(target, body, Answer::Object).await {
        Ok(made) => {
            notes.action = Some(RestoreAction::Created);
            Some(Settled { exists: true, ours: Some(made) })
        }
        Err(error) if exists(&error) => None,
        Err(error) => {
            notes.error(format!("error restoring {}: {}", subject.resource_id(), words(&error)));
            Some(Settled::default())
        }
    }
}

/// Whether an object is younger than this Restore.
pub(crate) fn is_new(run: &Run, found: &Value) -> bool {
    let begun = run.restore.metadata.creation_timestamp.as_ref().map(|begun| begun.0);
    existing::is_new(found, begun)
}

async fn treat(run: &Run, target: &Target, found: Value, wanted: &Value, notes: &mut Notes) {
    match compare(found, wanted, run.valid.existing.as_ref()) {
        Existing::Same => {}
        Existing::Different { warning } => notes.warn(warning),
        Existing::Labels { patch } => {
            if let Err(error) = run.writer.merge(target, None, &patch).await {
                notes.error(error.chain());
            }
        }
        Existing::Merge { patch, labels } => match run.writer.merge(target, None, &patch).await {
            Ok(_) => notes.action = Some(RestoreAction::Updated),
            Err(error) => {
                notes.warn(error.chain());
                if let Some(labels) = labels
                    && let Err(error) = run.writer.merge(target, None, &labels).await
                {
                    notes.error(error.chain());
                }
            }
        },
    }
}
