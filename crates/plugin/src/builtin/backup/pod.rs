//! Actions for pods: their claims and their priority class.

use async_trait::async_trait;
use lifeboat_api::catalogue::{GroupResource, ItemId};
use lifeboat_api::velero::Backup;
use serde_json::Value;

use super::{core, text};
use crate::actions::{ActionError, AppliesTo, BackupItemAction, BackupOutcome, ItemBlockAction, Lookup};

/// Adds a pod's claims and its priority class to the backup.
pub struct PodAction;

/// Puts a pod's claims into its block.
pub struct PodBlock;

#[async_trait]
impl BackupItemAction for PodAction {
    fn name(&self) -> &'static str {
        "velero.io/pod"
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        Ok(AppliesTo::resources(&["pods"]))
    }

    async fn execute(
        &self,
        item: Value,
        _backup: &Backup,
        _cluster: &dyn Lookup,
    ) -> Result<BackupOutcome, ActionError> {
        Ok(BackupOutcome { additional_items: related(&item), item, ..BackupOutcome::default() })
    }
}

#[async_trait]
impl ItemBlockAction for PodBlock {
    fn name(&self) -> &'static str {
        "velero.io/pod"
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        Ok(AppliesTo::resources(&["pods"]))
    }

    async fn related_items(
        &self,
        item: &Value,
        _backup: &Backup,
        _cluster: &dyn Lookup,
    ) -> Result<Vec<ItemId>, ActionError> {
        Ok(related(item))
    }
}

fn related(pod: &Value) -> Vec<ItemId> {
    let class = text(pod, "/spec/priorityClassName");
    let classes = GroupResource::new("scheduling.k8s.io", "priorityclasses");
    let class = (!class.is_empty()).then(|| ItemId::cluster(classes, class));
    let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array).into_iter().flatten();
    let claims = volumes
        .map(|volume| text(volume, "/persistentVolumeClaim/claimName"))
        .filter(|name| !name.is_empty());
    let namespace = text(pod, "/metadata/namespace");
    class
        .into_iter()
        .chain(claims.map(|name| ItemId::namespaced(core("persistentvolumeclaims"), namespace, name)))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{Objects, backup};
    use super::*;

    #[tokio::test]
    async fn a_pod_brings_its_priority_class_and_its_claims() {
        let pod = json!({"metadata": {"namespace": "shop", "name": "db-0"}, "spec": {
            "priorityClassName": "high",
            "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "t", "emptyDir": {}}],
        }});
        let outcome = PodAction.execute(pod.clone(), &backup(), &Objects::default()).await.unwrap();
        let names: Vec<_> = outcome.additional_items.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["priorityclasses.scheduling.k8s.io high", "persistentvolumeclaims shop/data"]);
        assert_eq!(outcome.item, pod);
        let related = PodBlock.related_items(&pod, &backup(), &Objects::default()).await.unwrap();
        assert_eq!(related, outcome.additional_items);
    }
}
