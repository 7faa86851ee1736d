//! A cluster of a few objects, and a way to run one action.

use async_trait::async_trait;
use lifeboat_api::catalogue::{GroupResource, ItemId};
use lifeboat_api::velero::Restore;
use serde_json::{Value, json};

use crate::actions::{ActionError, Lookup, RestoreInput, RestoreOutcome};

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

/// Runs the action of a name over an item, as a Restore of `spec` does.
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
    action.execute(RestoreInput { item, from_backup: &from_backup, restore: &restore }, cluster).await
}
