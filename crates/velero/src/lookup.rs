//! What actions may read from the cluster: [`ClusterLookup`] behind the trait of crate `plugin`. Made for each backup
//! and restore with the types that the cluster served when it started.

use std::sync::Arc;

use async_trait::async_trait;
use kube::Client;
use lifeboat_cluster::ApiError;
use lifeboat_cluster::lookup::ClusterLookup;
use lifeboat_cluster::write::{Throttle, Writer};
use lifeboat_plan::catalogue::{Catalogue, GroupResource, ItemId};
use lifeboat_plugin::ActionError;
use lifeboat_plugin::actions::Lookup;
use serde_json::Value;

/// The cluster as actions see it.
pub(crate) struct ActionLookup(ClusterLookup);

impl ActionLookup {
    pub(crate) fn new(cluster: ClusterLookup) -> Self {
        Self(cluster)
    }

    /// Reads through this client.
    pub(crate) fn with_client(client: Client, catalogue: Arc<Catalogue>) -> Self {
        let writer = Writer::new(client, Arc::new(Throttle::default()));
        Self(ClusterLookup::new(Arc::new(writer), catalogue))
    }
}

#[async_trait]
impl Lookup for ActionLookup {
    async fn get(&self, id: &ItemId) -> Result<Option<Value>, ActionError> {
        self.0.get(id).await.map_err(failed)
    }

    async fn list(
        &self,
        resource: &GroupResource,
        namespace: Option<&str>,
        label_selector: &str,
    ) -> Result<Vec<Value>, ActionError> {
        self.0.list(resource, namespace, label_selector).await.map_err(failed)
    }
}

#[allow(clippy::needless_pass_by_value)] // the shape that map_err wants
fn failed(error: ApiError) -> ActionError {
    match error.code() {
        Some(403) => ActionError::Forbidden(error.message()),
        _ => ActionError::Failed(error.message()),
    }
}
