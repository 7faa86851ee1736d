//! A cluster with a few objects, for tests.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use lifeboat_api::catalogue::{GroupResource, ItemId};
use lifeboat_api::velero::Backup;
use serde_json::{Value, json};

use crate::actions::{ActionError, Lookup};

#[derive(Default)]
pub(super) struct Objects {
    by_type: BTreeMap<String, Vec<Value>>,
    lists: Mutex<Vec<String>>,
    forbidden: String,
}

impl Objects {
    pub(super) fn new(objects: &[(&str, Vec<Value>)]) -> Self {
        let by_type = objects.iter().map(|(kind, list)| ((*kind).to_owned(), list.clone())).collect();
        Self { by_type, ..Self::default() }
    }

    /// Makes lists of this type forbidden.
    pub(super) fn forbidding(mut self, resource: &str) -> Self {
        resource.clone_into(&mut self.forbidden);
        self
    }

    /// How often a type was listed.
    pub(super) fn lists_of(&self, resource: &str) -> usize {
        self.lists.lock().unwrap().iter().filter(|listed| *listed == resource).count()
    }
}

#[async_trait]
impl Lookup for Objects {
    async fn get(&self, _id: &ItemId) -> Result<Option<Value>, ActionError> {
        Ok(None)
    }

    async fn list(
        &self,
        resource: &GroupResource,
        _namespace: Option<&str>,
        _label_selector: &str,
    ) -> Result<Vec<Value>, ActionError> {
        self.lists.lock().unwrap().push(resource.resource.clone());
        if resource.resource == self.forbidden {
            return Err(ActionError::Forbidden("not allowed".to_owned()));
        }
        Ok(self.by_type.get(&resource.resource).cloned().unwrap_or_default())
    }
}

pub(super) fn backup() -> Backup {
    serde_json::from_value(json!({"apiVersion": "velero.io/v1", "kind": "Backup",
        "metadata": {"name": "b", "uid": "u"}, "spec": {"volumeGroupSnapshotLabelKey": "velero.io/volume-group"}}))
    .unwrap()
}
