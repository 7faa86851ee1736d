//! Carries the plan out: unsets surplus defaults, opens the bucket and looks at it.

use std::time::Duration;

use kube::{Resource, ResourceExt};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::location::Due;
use lifeboat_store::{LOCATION_DIRECTORIES, Tuning, open, probe};
use serde_json::json;

use super::State;
use super::gather::Gathered;
use super::plan::{Look, Plan};
use super::validate::Opening;
use crate::context::Context;

/// How long a look may take: a person waits for the answer.
const PATIENCE: Duration = Duration::from_secs(15);

/// What happened.
pub(super) enum Outcome {
    Looked(Verdict),
    NotDue(Due),
}

/// The result of a look.
pub(super) struct Verdict {
    /// `None`: the bucket can be used.
    pub(super) problem: Option<String>,
    pub(super) fingerprint: String,
    pub(super) first_look: bool,
    /// Zero where periodic looks are off.
    pub(super) next_look: Duration,
}

pub(super) async fn apply(
    context: &Context,
    state: &State,
    gathered: &Gathered,
    plan: Plan,
) -> Result<Outcome, ApiError> {
    if let Some((stays, surplus)) = &plan.surplus {
        unset_if_surplus(context, state, gathered, stays, surplus).await?;
    }
    let problem = match plan.look {
        Look::Later(due) => return Ok(Outcome::NotDue(due)),
        Look::Unusable(unusable) => Some(unusable.reason),
        Look::Now(opening) => look(context, &opening).await.err(),
    };
    Ok(Outcome::Looked(Verdict {
        problem,
        fingerprint: plan.fingerprint,
        first_look: plan.first_look,
        next_look: plan.frequency,
    }))
}

async fn look(context: &Context, opening: &Opening) -> Result<(), String> {
    let looked = async {
        let store = open(&opening.config, &context.settings.cloud, Tuning::default()).await?;
        probe(&store, &LOCATION_DIRECTORIES, PATIENCE).await
    };
    looked.await.map_err(|error: lifeboat_store::Error| words(&error))
}

/// The error, its causes where they add something, and what to do.
fn words(error: &lifeboat_store::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    format!("{text}; {}", error.hint())
}

/// Of several defaults the newest stays; its reconcile unsets the others, so that no two write the same object.
async fn unset_if_surplus(
    context: &Context,
    state: &State,
    gathered: &Gathered,
    stays: &str,
    surplus: &[String],
) -> Result<(), ApiError> {
    if gathered.object.name_any() != stays {
        return Ok(());
    }
    let api = objects::namespaced(&context.client, &context.settings.namespace, &state.resource);
    for other in surplus {
        let found = api.get(other).await.attempt(format!("read BackupStorageLocation {other}"))?;
        objects::merge(&api, &found, json!({"spec": {"default": false}})).await?;
        let note = format!("location {stays} was made later and is the default now; this one no longer is");
        context.events.warning(&found.object_ref(&state.resource), "DefaultUnset", &note).await;
    }
    Ok(())
}
