//! Carries out the plan: unsets surplus defaults, opens the bucket and checks it through the store that is used for
//! it.

use std::time::Duration;

use kube::{Resource, ResourceExt};
use lifeboat_cluster::{ApiError, objects};
use lifeboat_plan::velero::location::{Due, PastLook};
use lifeboat_store::{Error, LOCATION_DIRECTORIES, StoreConfig, Tuning, open, probe};
use serde_json::json;
use tokio::time::timeout;

use super::State;
use super::gather::Gathered;
use super::plan::{Look, Plan};
use super::validate::{Opening, Problem};
use crate::context::Context;
use crate::locations::{PluginOpening, narrow_problem, open_plugin, problem};

/// How long a check may take: a user waits for the result.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long a check through a plugin may take: its program may have to be started first.
const PLUGIN_PATIENCE: Duration = Duration::from_secs(30);

/// What was done.
pub(super) enum Outcome {
    Looked(Verdict),
    NotDue(Due),
    /// This location is not the default any more: that change triggers the next reconcile.
    Unset,
}

/// The result of a check.
pub(super) struct Verdict {
    /// `None` if the bucket can be used.
    pub(super) problem: Option<Problem>,
    /// Insecure settings of storage that can be used.
    pub(super) warnings: Vec<String>,
    /// The store that was used; `None` if the location does not even name a bucket.
    pub(super) used: Option<String>,
    pub(super) this_look: PastLook,
    pub(super) first_look: bool,
    /// Zero if periodic checks are off.
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
    let (problem, warnings, used) = match plan.look {
        Look::Later(due) => return Ok(Outcome::NotDue(due)),
        Look::Unusable(problem) => (Some(problem), Vec::new(), None),
        Look::Now(opening) => {
            let (problem, warnings) = check(context, &opening).await;
            (problem, warnings, Some(opening.used().to_owned()))
        }
    };
    Ok(Outcome::Looked(Verdict {
        problem,
        warnings,
        used,
        // The next period starts here, however long the check took.
        this_look: PastLook { at: context.now(), ..plan.this_look },
        first_look: plan.first_look,
        next_look: plan.frequency,
    }))
}

/// What is wrong with the bucket, and which settings are insecure.
async fn check(context: &Context, opening: &Opening) -> (Option<Problem>, Vec<String>) {
    match opening {
        Opening::BuiltIn(config) => check_built_in(context, config).await,
        Opening::Plugin(opening) => (check_through_plugin(context, opening).await.err(), Vec::new()),
    }
}

/// Checks the bucket through a plugin. A process that fails is not used again: the next check starts another one.
async fn check_through_plugin(context: &Context, opening: &PluginOpening) -> Result<(), Problem> {
    let store = open_plugin(context, opening)?;
    let listed = timeout(PLUGIN_PATIENCE, store.directories("")).await.unwrap_or_else(|_elapsed| {
        let action = format!("listing the root of the location through {}", opening.used);
        Err(Error::Deadline { action, seconds: PLUGIN_PATIENCE.as_secs() }.into())
    });
    let names = listed.map_err(|error| {
        context.stores.forget(&opening.uid);
        narrow_problem(&error)
    })?;
    let foreign: Vec<String> =
        names.into_iter().filter(|name| !LOCATION_DIRECTORIES.contains(&name.as_str())).collect();
    if foreign.is_empty() { Ok(()) } else { Err(problem(&Error::ForeignDirectories { names: foreign })) }
}

async fn check_built_in(context: &Context, config: &StoreConfig) -> (Option<Problem>, Vec<String>) {
    let store = match open(config, &context.settings.cloud, Tuning::default()).await {
        Ok(store) => store,
        Err(error) => return (Some(problem(&error)), Vec::new()),
    };
    let probed = probe(&store, &LOCATION_DIRECTORIES, PATIENCE).await;
    (probed.err().map(|error| problem(&error)), store.warnings().to_vec())
}

/// Of several defaults the newest stays; every reconcile unsets the others, if they did not change since they were
/// listed. True if this location was among them.
async fn unset(
    context: &Context,
    state: &State,
    gathered: &Gathered,
    stays: &str,
    surplus: &[String],
) -> Result<bool, ApiError> {
    let api = objects::namespaced(&context.client, &context.namespace, &state.resource);
    let mut this_one = false;
    for other in gathered.defaults.iter().filter(|other| surplus.contains(&other.name_any())) {
        match objects::merge(&api, other, json!({"spec": {"default": false}})).await {
            Ok(_) => {
                let note = format!(
                    "location {stays} was created later and is the default now; this one is not any more"
                );
                context.events.warning(&other.object_ref(&state.resource), "DefaultUnset", &note).await;
                this_one |= other.uid() == gathered.object.uid();
            }
            Err(error) if error.is_not_found() => {}
            Err(error) if error.is_invalid() => {
                let message = format!("location {stays} is the default, but this one cannot be unset");
                context.refused.report(&context.events, other, &state.resource, &message, &error).await;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(this_one)
}
