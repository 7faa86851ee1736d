//! Objects whose change the API server refuses, because they are older than their schema: nothing can be written into
//! them, so an event tells, once for each version of an object. Only a person can help; the next try is far off.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use lifeboat_cluster::ApiError;
use lifeboat_cluster::events::Events;

/// The schema may be mended without the object being touched, which nobody tells us.
const NEXT_TRY: Duration = Duration::from_mins(5);

/// More objects than this are not remembered: some would be told again.
const MOST: usize = 1000;

/// Which version of which object was told, by UID; clones share it.
#[derive(Clone, Default)]
pub(crate) struct Refused {
    told: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Refused {
    /// Tells why the object was not changed, where that is news. `words` says what is missing now.
    pub(crate) async fn tell(
        &self,
        events: &Events,
        object: &DynamicObject,
        resource: &ApiResource,
        words: &str,
        error: &ApiError,
    ) -> Action {
        if self.is_news(object) {
            let note = format!(
                "{words}; correct the object with `kubectl edit`, or make it anew: {}",
                error.chain()
            );
            events.warning(&object.object_ref(resource), "ObjectNotValid", &note).await;
        }
        Action::requeue(NEXT_TRY)
    }

    fn is_news(&self, object: &DynamicObject) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= MOST {
            told.clear();
        }
        let version = object.resource_version().unwrap_or_default();
        told.insert(object.uid().unwrap_or_default(), version.clone()) != Some(version)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use kube::Client;
    use lifeboat_cluster::objects;
    use lifeboat_cluster::testing::{client, failure};
    use serde_json::json;

    use super::*;

    fn object(version: &str) -> DynamicObject {
        let metadata = json!({"name": "old", "namespace": "n", "uid": "u", "resourceVersion": version});
        serde_json::from_value(json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": metadata}))
            .unwrap()
    }

    /// An API server that refuses every object and counts events.
    async fn refusing() -> (Client, Arc<AtomicUsize>) {
        let events = Arc::new(AtomicUsize::new(0));
        let counted = events.clone();
        let client = client(move |asked| {
            if !asked.path.contains("/events") {
                return failure(422, "Invalid");
            }
            counted.fetch_add(1, Ordering::Relaxed);
            (201, asked.body)
        });
        (client.await, events)
    }

    #[tokio::test]
    async fn an_object_that_cannot_be_written_gets_one_event_for_each_of_its_versions() {
        let (client, written) = refusing().await;
        let resource = objects::resource("velero.io", "v1", "Backup", "backups");
        let api = objects::namespaced(&client, "n", &resource);
        let (events, refused) = (Events::new(client, "me"), Refused::default());
        for (version, expected) in [("1", 1), ("1", 1), ("2", 2)] {
            let object = object(version);
            let error = objects::merge(&api, &object, json!({"status": {}})).await.unwrap_err();
            assert!(error.is_invalid());
            let action = refused.tell(&events, &object, &resource, "nothing was done", &error).await;
            assert_eq!(action, Action::requeue(NEXT_TRY));
            assert_eq!(written.load(Ordering::Relaxed), expected, "version {version}");
        }
    }
}
