//! What actions may ask of the cluster during a restore. Lists that many items ask for are remembered for its length.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use lifeboat_cluster::write::{Target, Writer};
use lifeboat_plan::catalogue::{Catalogue, GroupResource, ItemId, ResourceType};
use lifeboat_plugin::actions::{ActionError, Lookup};
use serde_json::Value;
use tokio::sync::Mutex;

type Question = (GroupResource, Option<String>, String);

pub(crate) struct ClusterLookup {
    writer: Writer,
    catalogue: Arc<Catalogue>,
    remembered: Mutex<BTreeMap<Question, Vec<Value>>>,
}

impl ClusterLookup {
    pub(crate) fn new(writer: Writer, catalogue: Arc<Catalogue>) -> Self {
        Self { writer, catalogue, remembered: Mutex::default() }
    }

    /// Where an object is; None where its type is not served.
    pub(crate) fn target(&self, id: &ItemId) -> Option<Target> {
        let known = self.catalogue.get(&id.resource)?;
        Some(Target {
            api_version: known.api_version(),
            plural: known.id.resource.clone(),
            kind: known.kind.clone(),
            namespace: id.namespace.clone(),
            name: id.name.clone(),
        })
    }

    async fn ask(&self, known: &ResourceType, question: &Question) -> Result<Vec<Value>, ActionError> {
        let asked = self.writer.list(known, question.1.as_deref(), &question.2).await;
        asked.map_err(|error| ActionError::Failed(error.chain()))
    }
}

#[async_trait]
impl Lookup for ClusterLookup {
    async fn get(&self, id: &ItemId) -> Result<Option<Value>, ActionError> {
        let Some(target) = self.target(id) else { return Ok(None) };
        self.writer.get(&target).await.map_err(|error| ActionError::Failed(error.chain()))
    }

    async fn list(
        &self,
        resource: &GroupResource,
        namespace: Option<&str>,
        label_selector: &str,
    ) -> Result<Vec<Value>, ActionError> {
        let Some(known) = self.catalogue.get(resource) else { return Ok(Vec::new()) };
        let question = (resource.clone(), namespace.map(str::to_owned), label_selector.to_owned());
        // Settings of actions, and accounts, which come before whatever asks for them.
        if !matches!(resource.resource.as_str(), "configmaps" | "serviceaccounts") {
            return self.ask(known, &question).await;
        }
        let mut remembered = self.remembered.lock().await;
        if let Some(found) = remembered.get(&question) {
            return Ok(found.clone());
        }
        let found = self.ask(known, &question).await?;
        remembered.insert(question, found.clone());
        Ok(found)
    }
}
