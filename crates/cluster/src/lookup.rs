//! Reads objects of the types that the cluster serves: takes an item's ID and returns the object as JSON. Actions of
//! backups and restores access the cluster only through it.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use lifeboat_plan::catalogue::{Catalogue, GroupResource, ItemId, ResourceType};
use serde_json::Value;
use tokio::sync::Mutex;

use crate::ApiError;
use crate::write::{Target, Writer};

/// Reads single objects and lists.
#[async_trait]
pub trait Reader: Send + Sync {
    /// Reads an object; None if it does not exist.
    async fn get(&self, target: &Target) -> Result<Option<Value>, ApiError>;
    /// Lists the objects of a type, in one namespace or in all of them.
    async fn list(
        &self,
        known: &ResourceType,
        namespace: Option<&str>,
        selector: &str,
    ) -> Result<Vec<Value>, ApiError>;
}

#[async_trait]
impl Reader for Writer {
    async fn get(&self, target: &Target) -> Result<Option<Value>, ApiError> {
        Self::get(self, target).await
    }

    async fn list(
        &self,
        known: &ResourceType,
        namespace: Option<&str>,
        selector: &str,
    ) -> Result<Vec<Value>, ApiError> {
        Self::list(self, known, namespace, selector).await
    }
}

/// The location of an object in the API; None if its type is not served.
pub fn target(catalogue: &Catalogue, id: &ItemId) -> Option<Target> {
    let known = catalogue.get(&id.resource)?;
    Some(Target {
        api_version: known.api_version(),
        plural: known.id.resource.clone(),
        kind: known.kind.clone(),
        namespace: id.namespace.clone(),
        name: id.name.clone(),
    })
}

type Question = (GroupResource, Option<String>, String);

/// The cluster, with the types that it served when this was created.
pub struct ClusterLookup {
    reader: Arc<dyn Reader>,
    catalogue: Arc<Catalogue>,
    /// Types whose lists are read once and then cached.
    stable: &'static [&'static str],
    remembered: Mutex<BTreeMap<Question, Vec<Value>>>,
}

impl ClusterLookup {
    pub fn new(reader: Arc<dyn Reader>, catalogue: Arc<Catalogue>) -> Self {
        Self { reader, catalogue, stable: &[], remembered: Mutex::default() }
    }

    /// Caches the lists of these types, given by their plurals.
    #[must_use]
    pub fn remembering(mut self, plurals: &'static [&'static str]) -> Self {
        self.stable = plurals;
        self
    }

    /// Reads one object; None if it does not exist or its type is not served.
    pub async fn get(&self, id: &ItemId) -> Result<Option<Value>, ApiError> {
        match target(&self.catalogue, id) {
            Some(target) => self.reader.get(&target).await,
            None => Ok(None),
        }
    }

    /// Lists all objects of a type, in one namespace or in all of them. Empty if the type is not served.
    pub async fn list(
        &self,
        resource: &GroupResource,
        namespace: Option<&str>,
        selector: &str,
    ) -> Result<Vec<Value>, ApiError> {
        let Some(known) = self.catalogue.get(resource) else { return Ok(Vec::new()) };
        if !self.stable.contains(&resource.resource.as_str()) {
            return self.reader.list(known, namespace, selector).await;
        }
        let question = (resource.clone(), namespace.map(str::to_owned), selector.to_owned());
        let mut remembered = self.remembered.lock().await;
        if let Some(found) = remembered.get(&question) {
            return Ok(found.clone());
        }
        let found = self.reader.list(known, namespace, selector).await?;
        remembered.insert(question, found.clone());
        Ok(found)
    }
}
