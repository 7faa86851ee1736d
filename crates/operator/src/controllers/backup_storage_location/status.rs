//! What the object shows afterwards: phase, message, time and conditions, in one patch; an event where the phase
//! changed; the metric. A patch that the API server refuses (an object older than its schema) becomes an event.

use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use lifeboat_cluster::{ApiError, objects};
use lifeboat_plan::location::Due;
use lifeboat_plan::password::{self, EXPORTED_ANNOTATION};
use lifeboat_plan::{conditions, unsupported};
use serde_json::{Value, json};

use super::State;
use super::apply::Outcome;
use super::gather::Gathered;
use crate::context::Context;

pub(super) async fn write(
    context: &Context,
    state: &State,
    gathered: &Gathered,
    outcome: Outcome,
) -> Result<Action, ApiError> {
    let password = gathered.password.as_ref();
    let exported = password.is_some_and(|secret| secret.annotations.contains_key(EXPORTED_ANNOTATION));
    context.metrics.set_password(exported, password::uses_public_default(password));
    let verdict = match outcome {
        Outcome::NotDue(Due::In(rest)) => return Ok(Action::requeue(rest)),
        Outcome::NotDue(_) => return Ok(Action::await_change()),
        Outcome::Looked(verdict) => verdict,
    };
    let name = gathered.object.name_any();
    let available = verdict.problem.is_none();
    context.metrics.set_location(&name, available);
    let api = objects::namespaced(&context.client, &context.settings.namespace, &state.resource);
    let about = gathered.object.object_ref(&state.resource);
    let message = verdict.problem.unwrap_or_default();
    match objects::merge(&api, &gathered.object, patch(context, gathered, available, &message)).await {
        Ok(_) => {}
        Err(error) if error.is_invalid() => {
            let note = format!("the status cannot be written, the object is not valid any more: {message}");
            context.events.warning(&about, "Unavailable", &note).await;
            return Ok(Action::requeue(verdict.next_look));
        }
        Err(error) => return Err(error),
    }
    let before = gathered.object.data.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    if available && before != "Available" {
        context.events.normal(&about, "Available", "the bucket can be used").await;
    }
    if !available && (before == "Available" || verdict.first_look) {
        context.events.warning(&about, "Unavailable", &message).await;
    }
    if verdict.first_look {
        for fact in password::facts(password).iter().filter(|fact| !fact.holds) {
            context.events.warning(&about, fact.reason, &fact.message).await;
        }
    }
    if let (Ok(mut known), Some(uid)) = (state.looked_at.lock(), gathered.object.uid()) {
        known.insert(uid, verdict.fingerprint);
    }
    Ok(if verdict.next_look.is_zero() { Action::await_change() } else { Action::requeue(verdict.next_look) })
}

fn patch(context: &Context, gathered: &Gathered, available: bool, message: &str) -> Value {
    let now = context.now();
    let old =
        gathered.location.as_ref().ok().and_then(|location| location.status.as_ref()?.conditions.clone());
    let conditions =
        conditions::merge(&old.unwrap_or_default(), &password::facts(gathered.password.as_ref()), now);
    json!({"status": {
        "phase": if available { "Available" } else { "Unavailable" },
        "message": if available { Value::Null } else { json!(message) },
        "lastValidationTime": unsupported::seconds(now),
        "conditions": conditions,
    }})
}
