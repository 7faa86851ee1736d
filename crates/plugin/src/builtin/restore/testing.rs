//! A cluster with a few objects and a function that runs one action, for tests.

use async_trait::async_trait;
use lifeboat_api::catalogue::{GroupResource, ItemId};
use lifeboat_api::velero::Restore;
use serde_json::{Value, json};

use crate::actions::{ActionError, BackupItems, Intent, Lookup, RestoreInput, RestoreOutcome};

/// Objects with their types.
#[derive(Default)]
pub(super) struct Objects(pub(super) Vec<(&'static str, Value)>);

#[async_trait]
impl Lookup for Objects {
    async fn get(&self, id: &ItemId) -> Result<Option<Value>, ActionError> {
        let same = |(resource, object): &&(&str, Value)| {
            *resource == id.resource.to_string() && object["metadata"]["name"] == id.name.as_str()
        };
        Ok(self.0.iter().find(same).map(|(_, object)| object.clone()))
    }

    async fn list(
        &self,
        resource: &GroupResource,
        namespace: Option<&str>,
        _label_selector: &str,
    ) -> Result<Vec<Value>, ActionError> {
        let wanted = |(known, object): &&(&str, Value)| {
            *known == resource.to_string()
                && namespace.is_none_or(|namespace| object["metadata"]["namespace"] == namespace)
        };
        Ok(self.0.iter().filter(wanted).map(|(_, object)| object.clone()).collect())
    }
}

/// A backup without further items.
struct NoItems;

#[async_trait]
impl BackupItems for NoItems {
    async fn get(&self, _: &ItemId) -> Option<Value> {
        None
    }
}

/// Runs the action with this name on an item, as a Restore with `spec` does.
pub(super) async fn run(
    name: &str,
    item: Value,
    spec: &Value,
    cluster: &Objects,
) -> Result<RestoreOutcome, ActionError> {
    let restore: Restore =
        serde_json::from_value(json!({"metadata": {"name": "r", "namespace": "lifeboat"}, "spec": spec}))
            .unwrap();
    let action = super::actions().into_iter().find(|action| action.name() == name).unwrap();
    let from_backup = item.clone();
    let input = RestoreInput {
        item,
        from_backup: &from_backup,
        restore: &restore,
        backup: &NoItems,
        intent: Intent::Restore,
    };
    action.execute(input, cluster).await
}
