//! Objects that the API server refuses to change, because they do not match their schema: their status cannot be
//! written, so an event reports the problem, once for each version of an object. The object or the schema has to be
//! corrected, so the next try is minutes later. Called by [`crate::Core::write`] and by controllers that write in
//! their own way.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use lifeboat_cluster::ApiError;
use lifeboat_cluster::events::Events;

use crate::locked;

/// A corrected schema does not change the object, and so triggers no reconcile.
const NEXT_TRY: Duration = Duration::from_mins(5);

/// How many objects are remembered: beyond that, some get a second event.
const MOST: usize = 1000;

/// The version of each object that has its event, by UID; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Refused {
    reported: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Refused {
    /// Writes an event about the refused change, unless this version of the object has one. `message` is what the
    /// object is missing now. Returns when to try again.
    pub async fn report(
        &self,
        events: &Events,
        object: &DynamicObject,
        resource: &ApiResource,
        message: &str,
        error: &ApiError,
    ) -> Action {
        if self.is_unreported(object) {
            let note = format!(
                "{message}; correct the object with `kubectl edit`, or create it again: {}",
                error.chain()
            );
            events.warning(&object.object_ref(resource), "ObjectNotValid", &note).await;
        }
        Action::requeue(NEXT_TRY)
    }

    /// Whether this version of the object has no event yet; from now on it has one.
    pub(crate) fn is_unreported(&self, object: &DynamicObject) -> bool {
        let mut reported = locked(&self.reported);
        if reported.len() >= MOST {
            reported.clear();
        }
        let version = object.resource_version().unwrap_or_default();
        reported.insert(object.uid().unwrap_or_default(), version.clone()) != Some(version)
    }
}

#[cfg(test)]
mod tests {
    use lifeboat_cluster::objects;
    use serde_json::json;

    use super::*;
    use crate::testing::{ApiServer, Requests, Verb, When};

    fn object(version: &str) -> DynamicObject {
        let metadata = json!({"name": "old", "namespace": "n", "uid": "u", "resourceVersion": version});
        serde_json::from_value(json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": metadata}))
            .unwrap()
    }

    #[tokio::test]
    async fn an_object_that_cannot_be_written_gets_one_event_for_each_of_its_versions() {
        let server = ApiServer::default();
        server.fail(Requests::new(Verb::Patch, "*"), When::Always, 422);
        let client = server.client().await;
        let resource = objects::resource("velero.io", "v1", "Backup", "backups");
        let api = objects::namespaced(&client, "n", &resource);
        let (events, refused) = (Events::new(client, "me"), Refused::default());
        for (version, expected) in [("1", 1), ("1", 1), ("2", 2)] {
            let object = object(version);
            let error = objects::merge(&api, &object, json!({"status": {}})).await.unwrap_err();
            assert!(error.is_invalid());
            let action = refused.report(&events, &object, &resource, "nothing was done", &error).await;
            assert_eq!(action, Action::requeue(NEXT_TRY));
            assert_eq!(server.events().len(), expected, "version {version}");
        }
    }
}
