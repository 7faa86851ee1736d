//! Actions for pods: their claims and their priority class.

use async_trait::async_trait;
use lifeboat_api::catalogue::{GroupResource, ItemId};
use lifeboat_api::velero::Backup;
use lifeboat_plan::transfer::directory::claim_of;
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
        let mut items = related(item);
        // The claims of its ephemeral volumes, which the cluster creates: its hooks are for them, too.
        items.extend(ephemeral_claims(item));
        Ok(items)
    }
}

fn ephemeral_claims(pod: &Value) -> impl Iterator<Item = ItemId> {
    let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array).into_iter().flatten();
    let ephemeral = volumes.filter(|volume| volume.get("ephemeral").is_some());
    let claims = ephemeral.filter_map(move |volume| claim_of(text(pod, "/metadata/name"), volume));
    claims.map(move |claim| {
        ItemId::namespaced(core("persistentvolumeclaims"), text(pod, "/metadata/namespace"), &claim)
    })
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

    #[tokio::test]
    async fn the_claim_of_an_ephemeral_volume_is_in_the_block_of_its_pod() {
        let pod = json!({"metadata": {"namespace": "shop", "name": "db-0"},
            "spec": {"volumes": [{"name": "scratch", "ephemeral": {}}]}});
        let related = PodBlock.related_items(&pod, &backup(), &Objects::default()).await.unwrap();
        let names: Vec<_> = related.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["persistentvolumeclaims shop/db-0-scratch"]);
    }
}
