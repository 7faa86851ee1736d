//! Objects whose change the API server refuses, because they are older than their schema: nothing can be written into
//! them, so an event reports it, once for each version of an object. Only a person can help; the next try is far off.
//! Called by [`crate::Core::write`] and by controllers that write in their own way.

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

/// A corrected schema brings no change of the object, and so no reconcile.
const NEXT_TRY: Duration = Duration::from_mins(5);

/// More objects than this are not remembered: some would get a second event.
const MOST: usize = 1000;

/// Which version of which object has its event, by UID; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Refused {
    reported: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Refused {
    /// An event says why the object was not changed, where this version has none yet. `message` is what is missing in the
    /// object now. Gives when to try again.
    pub async fn report(
        &self,
        events: &Events,
        object: &DynamicObject,
        resource: &ApiResource,
        message: &str,
        error: &ApiError,
    ) -> Action {
        if self.is_news(object) {
            let note = format!(
                "{message}; correct the object with `kubectl edit`, or make it anew: {}",
                error.chain()
            );
            events.warning(&object.object_ref(resource), "ObjectNotValid", &note).await;
        }
        Action::requeue(NEXT_TRY)
    }

    fn is_news(&self, object: &DynamicObject) -> bool {
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
