//! Carries the plan out: unsets surplus defaults, opens the bucket and looks at it.

use std::time::Duration;

use kube::{Resource, ResourceExt};
use lifeboat_cluster::{ApiError, objects};
use lifeboat_plan::location::{Due, PastLook};
use lifeboat_store::{LOCATION_DIRECTORIES, Tuning, open, probe};
use serde_json::json;

use super::State;
use super::gather::Gathered;
use super::plan::{Look, Plan};
use super::validate::{Opening, Problem};
use crate::context::Context;
use crate::locations::problem;

/// How long a look may take: a person waits for the answer.
const PATIENCE: Duration = Duration::from_secs(15);

/// What happened.
pub(super) enum Outcome {
    Looked(Verdict),
    NotDue(Due),
    /// This location is the default no more: that change brings the next reconcile.
    Unset,
}

/// The result of a look.
pub(super) struct Verdict {
    /// `None`: the bucket can be used.
    pub(super) problem: Option<Problem>,
    /// What is insecure about the storage though it can be used.
    pub(super) warnings: Vec<String>,
    pub(super) this_look: PastLook,
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
    if let Some((stays, surplus)) = &plan.surplus
        && unset(context, state, gathered, stays, surplus).await?
    {
        return Ok(Outcome::Unset);
    }
    let (problem, warnings) = match plan.look {
        Look::Later(due) => return Ok(Outcome::NotDue(due)),
        Look::Unusable(problem) => (Some(problem), Vec::new()),
        Look::Now(opening) => look(context, &opening).await,
    };
    Ok(Outcome::Looked(Verdict {
        problem,
        warnings,
        // From here the next period counts, however long the look took.
        this_look: PastLook { at: context.now(), ..plan.this_look },
        first_look: plan.first_look,
        next_look: plan.frequency,
    }))
}

/// What is wrong with the bucket, and what is insecure about the way to it.
async fn look(context: &Context, opening: &Opening) -> (Option<Problem>, Vec<String>) {
    let store = match open(&opening.config, &context.settings.cloud, Tuning::default()).await {
        Ok(store) => store,
        Err(error) => return (Some(problem(&error)), Vec::new()),
    };
    let probed = probe(&store, &LOCATION_DIRECTORIES, PATIENCE).await;
    (probed.err().map(|error| problem(&error)), store.warnings().to_vec())
}

/// Of several defaults the newest stays; whoever sees the others unsets them, each as it was listed. True where this
/// location was among them.
async fn unset(
    context: &Context,
    state: &State,
    gathered: &Gathered,
    stays: &str,
    surplus: &[String],
) -> Result<bool, ApiError> {
    let api = objects::namespaced(&context.client, &context.settings.namespace, &state.resource);
    let mut this_one = false;
    for other in gathered.defaults.iter().filter(|other| surplus.contains(&other.name_any())) {
        match objects::merge(&api, other, json!({"spec": {"default": false}})).await {
            Ok(_) => {
                let note =
                    format!("location {stays} was made later and is the default now; this one no longer is");
                context.events.warning(&other.object_ref(&state.resource), "DefaultUnset", &note).await;
                this_one |= other.uid() == gathered.object.uid();
            }
            Err(error) if error.is_not_found() => {}
            Err(error) if error.is_invalid() => {
                let words = format!("location {stays} is the default, but this one cannot be unset");
                context.refused.tell(&context.events, other, &state.resource, &words, &error).await;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(this_one)
}
