//! What all controllers of one term of leadership share, and the conditional write of a status.

use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::controller::Action;
use kube::{Api, Client, Resource};
use lifeboat_cluster::events::Events;
use lifeboat_cluster::{ApiError, objects};
use lifeboat_web::Metrics;
use serde_json::Value;

use crate::{Clock, Refused};

/// What a controller of any kind needs. Clones share it.
#[derive(Clone)]
pub struct Core {
    pub client: Client,
    /// A client without retries: for callers that limit the number of requests themselves.
    pub direct: Client,
    /// A client that waits for commands in pods which print nothing for a long time.
    pub patient: Client,
    pub events: Events,
    pub metrics: Metrics,
    /// Objects that the API server refused to change.
    pub refused: Refused,
    pub clock: Clock,
    /// The namespace of Lifeboat's own objects.
    pub namespace: String,
    /// The name of this replica, in events and in locks of repositories.
    pub identity: String,
}

/// The result of a conditional write.
#[derive(Debug)]
pub enum Written {
    /// The object after the write.
    Changed(Box<DynamicObject>),
    /// The object is gone.
    Gone,
    /// The API server refused the change, which an event on the object reports; the action is when to try again.
    Refused(Action),
}

impl Core {
    /// With one client for everything.
    pub fn new(client: Client, metrics: Metrics, namespace: &str, identity: &str) -> Self {
        Self {
            direct: client.clone(),
            patient: client.clone(),
            events: Events::new(client.clone(), identity),
            client,
            metrics,
            refused: Refused::default(),
            clock: Clock::default(),
            namespace: namespace.to_owned(),
            identity: identity.to_owned(),
        }
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The objects of a kind in Lifeboat's namespace.
    pub fn objects<K: Resource<DynamicType = ()>>(&self) -> Api<DynamicObject> {
        objects::namespaced(&self.client, &self.namespace, &objects::resource_of::<K>())
    }

    /// Merges `patch` into the object, if it has not changed since it was read. `message` is the start of the event
    /// for a refused change: what the object is missing now.
    pub async fn write(
        &self,
        resource: &ApiResource,
        object: &DynamicObject,
        patch: Value,
        message: &str,
    ) -> Result<Written, ApiError> {
        let namespace = object.metadata.namespace.as_deref().unwrap_or(&self.namespace);
        let api = objects::namespaced(&self.client, namespace, resource);
        match objects::merge(&api, object, patch).await {
            Ok(changed) => Ok(Written::Changed(Box::new(changed))),
            Err(error) if error.is_not_found() => Ok(Written::Gone),
            Err(error) if error.is_invalid() => {
                let next = self.refused.report(&self.events, object, resource, message, &error).await;
                Ok(Written::Refused(next))
            }
            Err(error) => Err(error),
        }
    }
}

impl AsRef<Core> for Core {
    fn as_ref(&self) -> &Core {
        self
    }
}
