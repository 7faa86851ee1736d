//! Objects that cannot be read because they do not match their schema: the object itself shows what is wrong, once,
//! and other objects are not affected. Called by reconcilers if `objects::typed` fails.

use std::fmt::Display;

use kube::Resource;
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
    format!("the object cannot be read: {problem}; {hint}")
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

/// Reports the object in an event, once for each of its versions: for kinds whose status has no place for such a message.
/// The next reconcile follows when the object changes.
pub async fn warn(
    core: &Core,
    resource: &ApiResource,
    object: &DynamicObject,
    problem: impl Display,
) -> Action {
    if core.refused.is_unreported(object) {
        let about = object.object_ref(resource);
        core.events.warning(&about, "ObjectNotValid", &message(problem, EDIT)).await;
    }
    Action::await_change()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::ApiServer;

    #[tokio::test]
    async fn an_unreadable_object_gets_one_event_for_each_of_its_versions() {
        let server = ApiServer::default();
        let core = server.core().await;
        let resource = lifeboat_cluster::objects::resource("g", "v1", "Thing", "things");
        for (version, expected) in [("1", 1), ("1", 1), ("2", 2)] {
            let metadata = json!({"name": "a", "namespace": "n", "uid": "u", "resourceVersion": version});
            let object = json!({"apiVersion": "g/v1", "kind": "Thing", "metadata": metadata});
            let object: DynamicObject = serde_json::from_value(object).unwrap();
            let next = warn(&core, &resource, &object, "spec is missing").await;
            assert_eq!(next, Action::await_change());
            assert_eq!(server.events().len(), expected, "version {version}");
        }
    }
}
