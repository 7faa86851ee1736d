//! What actions may ask of the cluster, answered by the server's own client. Made for each backup and restore with the types
//! that the cluster served when it began.

use std::sync::Arc;

use async_trait::async_trait;
use kube::Client;
use lifeboat_cluster::ApiError;
use lifeboat_cluster::list::{ListQuery, Pager, RawItem, get_raw};
use lifeboat_plan::catalogue::{Catalogue, GroupResource, ItemId};
use lifeboat_plugin::ActionError;
use lifeboat_plugin::actions::Lookup;
use serde_json::Value;

/// Objects in a page of a list.
const PAGE: u32 = 500;

/// The cluster as actions see it.
#[derive(Clone)]
pub(crate) struct ClusterLookup {
    client: Client,
    catalogue: Arc<Catalogue>,
}

impl ClusterLookup {
    pub(crate) fn new(client: Client, catalogue: Arc<Catalogue>) -> Self {
        Self { client, catalogue }
    }
}

#[async_trait]
impl Lookup for ClusterLookup {
    async fn get(&self, id: &ItemId) -> Result<Option<Value>, ActionError> {
        let Some(kind) = self.catalogue.get(&id.resource) else { return Ok(None) };
        let found = get_raw(&self.client, kind, id.namespace.as_deref(), &id.name).await.map_err(failed)?;
        found.map(|item| value(&item)).transpose()
    }

    async fn list(
        &self,
        resource: &GroupResource,
        namespace: Option<&str>,
        label_selector: &str,
    ) -> Result<Vec<Value>, ActionError> {
        let Some(kind) = self.catalogue.get(resource) else { return Ok(Vec::new()) };
        let query = ListQuery {
            kind: kind.clone(),
            namespace: namespace.map(str::to_owned),
            selector: label_selector.to_owned(),
            page_size: PAGE,
        };
        let mut pager = Pager::new(self.client.clone(), query);
        let mut values = Vec::new();
        while let Some(page) = pager.next().await.map_err(failed)? {
            for item in &page.items {
                values.push(value(item)?);
            }
        }
        Ok(values)
    }
}

fn value(item: &RawItem) -> Result<Value, ActionError> {
    serde_json::from_slice(&item.json)
        .map_err(|error| ActionError::Failed(format!("cannot read an object: {error}")))
}

#[allow(clippy::needless_pass_by_value)] // the shape that map_err wants
fn failed(error: ApiError) -> ActionError {
    match error.code() {
        Some(403) => ActionError::Forbidden(error.chain()),
        _ => ActionError::Failed(error.chain()),
    }
}
