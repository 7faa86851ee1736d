//! The status of a location: phase, message, time and conditions, in one patch; an event if the phase changed; the
//! metric. If the API server rejects the patch (the object does not match its schema), the result becomes an event.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use lifeboat_cluster::{ApiError, objects};
use lifeboat_plan::conditions::Fact;
use lifeboat_plan::velero::location::{self, Due, STORE_ANNOTATION};
use lifeboat_plan::velero::sync;
use lifeboat_plan::{conditions, password, time};
use serde_json::{Value, json};

use super::State;
use super::apply::{Outcome, Verdict};
use super::gather::Gathered;
use crate::context::Context;
use crate::dynamic::again_after;

pub(super) async fn write(
    context: &Context,
    state: &State,
    gathered: &Gathered,
    outcome: Outcome,
) -> Result<Action, ApiError> {
    let verdict = match outcome {
        Outcome::NotDue(Due::In(rest)) => return Ok(again_after(rest)),
        Outcome::NotDue(_) | Outcome::Unset => return Ok(Action::await_change()),
        Outcome::Looked(verdict) => verdict,
    };
    context.metrics.set_location(&gathered.object.name_any(), verdict.problem.is_none());
    let facts = facts(gathered, &verdict);
    let api = objects::namespaced(&context.client, &context.namespace, &state.resource);
    let written = objects::merge(&api, &gathered.object, patch(gathered, &verdict, &facts)).await;
    match written {
        Ok(_) => {
            write_events(context, &gathered.object.object_ref(&state.resource), gathered, &verdict, &facts)
                .await;
        }
        Err(error) if error.is_invalid() => {
            let found = verdict.problem.as_ref().map_or("the bucket can be used", |problem| &problem.message);
            let report = format!("the result cannot be written into this object: {found}");
            state.remember(&gathered.object, verdict.this_look);
            let object = &gathered.object;
            return Ok(context
                .refused
                .report(&context.events, object, &state.resource, &report, &error)
                .await);
        }
        Err(error) => return Err(error),
    }
    let next = jiff::SignedDuration::try_from(verdict.next_look).ok();
    let next = next.filter(|pause| !pause.is_zero()).and_then(|pause| context.now().checked_add(pause).ok());
    state.settle(gathered, phase(&verdict), next);
    state.remember(&gathered.object, verdict.this_look);
    Ok(again_after(verdict.next_look))
}

fn phase(verdict: &Verdict) -> &'static str {
    if verdict.problem.is_none() { "Available" } else { "Unavailable" }
}

/// Writes events if the phase changed, and at this server's first check also for conditions that do not hold.
async fn write_events(
    context: &Context,
    about: &ObjectReference,
    gathered: &Gathered,
    verdict: &Verdict,
    facts: &[Fact],
) {
    let was_available = gathered.shown.phase == "Available";
    match &verdict.problem {
        None if !was_available => {
            context.events.normal(about, "Available", "the bucket can be used").await;
        }
        Some(problem) if was_available || verdict.first_look => {
            context.events.warning(about, "Unavailable", &problem.message).await;
        }
        _ => {}
    }
    if verdict.first_look {
        // The phase was reported above.
        for fact in facts.iter().filter(|fact| !fact.holds && fact.kind != "Available") {
            context.events.warning(about, &fact.reason, &fact.message).await;
        }
    }
}

/// The conditions of this location: the result of the check, and the state of the password.
pub(super) fn facts(gathered: &Gathered, verdict: &Verdict) -> Vec<Fact> {
    let problem = verdict.problem.as_ref().map(|problem| (problem.category, problem.message.as_str()));
    let mut facts = location::facts(problem, &verdict.warnings, verdict.used.as_deref());
    facts.extend(password::facts(gathered.password.as_ref()));
    facts
}

pub(super) fn patch(gathered: &Gathered, verdict: &Verdict, facts: &[Fact]) -> Value {
    let now = verdict.this_look.at;
    let mut shown = conditions::merge(&gathered.shown.conditions, facts, now);
    // The sync of the location's backups writes its own condition.
    shown.extend(gathered.shown.conditions.iter().filter(|one| one.type_ == sync::SYNCED).cloned());
    let status = json!({
        "phase": phase(verdict),
        "message": verdict.problem.as_ref().map(|problem| &problem.message),
        "lastValidationTime": time::seconds(now),
        "conditions": shown,
    });
    json!({"metadata": {"annotations": {STORE_ANNOTATION: verdict.used}}, "status": status})
}
