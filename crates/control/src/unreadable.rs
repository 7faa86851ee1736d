//! Objects that cannot be read because they do not match their schema: the object itself shows what is wrong, once,
//! and other objects are not affected. Called by reconcilers if `objects::typed` fails.

use std::fmt::Display;

use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::controller::Action;
use lifeboat_cluster::ApiError;
use serde_json::Value;

use crate::{Core, Written};

/// The hint for most kinds.
pub const EDIT: &str = "correct it with `kubectl edit`, or create it again";

/// What is wrong with the object, and what to do.
pub fn message(problem: impl Display, hint: &str) -> String {
    let message = format!("the object cannot be read: {problem}");
    if hint.is_empty() { message } else { format!("{message}; {hint}") }
}

/// Writes `patch`, which contains `message`, into the object. The next reconcile follows when the object changes.
pub async fn report(
    core: &Core,
    resource: &ApiResource,
    object: &DynamicObject,
    patch: Value,
    message: &str,
) -> Result<Action, ApiError> {
    Ok(match core.write(resource, object, patch, message).await? {
        Written::Changed(_) | Written::Gone => Action::await_change(),
        Written::Refused(next) => next,
    })
}
