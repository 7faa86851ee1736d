//! Actions for claims: their volume; and, for blocks, the pods that mount them and the claims of their volume group.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use lifeboat_api::catalogue::ItemId;
use lifeboat_api::velero::{Backup, names};
use lifeboat_plan::transfer::directory::claim_of;
use serde_json::Value;

use super::cache::PerBackup;
use super::{core, text};
use crate::actions::{ActionError, AppliesTo, BackupItemAction, BackupOutcome, ItemBlockAction, Lookup};

/// The label that CSI actions of an earlier backup set.
const VOLUME_SNAPSHOT_LABEL: &str = "velero.io/volume-snapshot-name";

/// Adds the volume of a bound claim to the backup, and removes fields that bind the claim to this cluster.
pub struct ClaimAction;

/// Puts a claim's volume, the running pods that mount it and the claims of its volume group into one block.
#[derive(Default)]
pub struct ClaimBlock {
    /// By namespace: the running pods that mount each claim.
    mounts: PerBackup<BTreeMap<String, Vec<String>>>,
}

#[async_trait]
impl BackupItemAction for ClaimAction {
    fn name(&self) -> &'static str {
        "velero.io/pv"
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        Ok(AppliesTo::resources(&["persistentvolumeclaims"]))
    }

    async fn execute(
        &self,
        mut item: Value,
        backup: &Backup,
        _cluster: &dyn Lookup,
    ) -> Result<BackupOutcome, ActionError> {
        let Some(volume) = volume(&item) else {
            return Ok(BackupOutcome { item, ..BackupOutcome::default() });
        };
        free(&mut item, backup.metadata.name.as_deref().unwrap_or_default());
        Ok(BackupOutcome { item, additional_items: vec![volume], ..BackupOutcome::default() })
    }
}

#[async_trait]
impl ItemBlockAction for ClaimBlock {
    fn name(&self) -> &'static str {
        "velero.io/pvc"
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        Ok(AppliesTo::resources(&["persistentvolumeclaims"]))
    }

    async fn related_items(
        &self,
        item: &Value,
        backup: &Backup,
        cluster: &dyn Lookup,
    ) -> Result<Vec<ItemId>, ActionError> {
        let Some(volume) = volume(item) else { return Ok(Vec::new()) };
        let (namespace, name) = (text(item, "/metadata/namespace"), text(item, "/metadata/name"));
        let mounts = self.mounts(namespace, backup, cluster).await?;
        let pods = mounts.get(name).into_iter().flatten();
        let mut related = vec![volume];
        related.extend(pods.map(|pod| ItemId::namespaced(core("pods"), namespace, pod)));
        related.extend(grouped(item, namespace, name, backup, cluster).await?);
        Ok(related)
    }
}

impl ClaimBlock {
    async fn mounts(
        &self,
        namespace: &str,
        backup: &Backup,
        cluster: &dyn Lookup,
    ) -> Result<Arc<BTreeMap<String, Vec<String>>>, ActionError> {
        if let Some(known) = self.mounts.get(backup, namespace) {
            return Ok(known);
        }
        let mut mounts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pod in cluster.list(&core("pods"), Some(namespace), "").await? {
            if text(&pod, "/status/phase") != "Running" {
                continue;
            }
            for volume in pod.pointer("/spec/volumes").and_then(Value::as_array).into_iter().flatten() {
                let name = text(&pod, "/metadata/name");
                if let Some(claim) = claim_of(name, volume) {
                    mounts.entry(claim).or_default().push(name.to_owned());
                }
            }
        }
        Ok(self.mounts.keep(backup, namespace, mounts))
    }
}

/// The other claims whose volumes are snapshotted together with this one.
async fn grouped(
    item: &Value,
    namespace: &str,
    name: &str,
    backup: &Backup,
    cluster: &dyn Lookup,
) -> Result<Vec<ItemId>, ActionError> {
    let key = backup.spec.volume_group_snapshot_label_key.as_deref().unwrap_or(names::VOLUME_GROUP);
    let group = item["metadata"]["labels"][key].as_str().unwrap_or_default();
    if key.is_empty() || group.is_empty() {
        return Ok(Vec::new());
    }
    let claims = core("persistentvolumeclaims");
    let found = cluster.list(&claims, Some(namespace), &format!("{key}={group}")).await?;
    let others = found.iter().map(|claim| text(claim, "/metadata/name")).filter(|other| *other != name);
    Ok(others.map(|other| ItemId::namespaced(claims.clone(), namespace, other)).collect())
}

/// The volume that a claim is bound to.
fn volume(claim: &Value) -> Option<ItemId> {
    let name = text(claim, "/spec/volumeName");
    let bound = text(claim, "/status/phase") == "Bound" && !name.is_empty();
    bound.then(|| ItemId::cluster(core("persistentvolumes"), name))
}

/// Removes what an earlier restore or snapshot set, and the selector, because the volume will be provisioned again.
fn free(claim: &mut Value, backup: &str) {
    if let Some(spec) = claim["spec"].as_object_mut() {
        spec.remove("dataSource");
        spec.remove("dataSourceRef");
        // A claim with an empty class has no provisioner: only the selector finds its volume.
        if spec.get("storageClassName").and_then(Value::as_str) != Some("") {
            spec.remove("selector");
        }
    }
    let ours = |key: &str| key.starts_with("velero.io/");
    if let Some(labels) = claim.pointer_mut("/spec/selector/matchLabels").and_then(Value::as_object_mut) {
        labels.retain(|key, _| !ours(key));
    }
    if let Some(labels) = claim.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.retain(|key, value| match key.as_str() {
            names::RESTORE_NAME | names::MUST_INCLUDE_ADDITIONAL_ITEMS | VOLUME_SNAPSHOT_LABEL => false,
            names::BACKUP_NAME => value.as_str() == Some(backup),
            _ => true,
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{Objects, backup};
    use super::*;

    fn claim(phase: &str) -> Value {
        json!({
            "metadata": {"namespace": "shop", "name": "data", "labels": {
                "app": "db", "velero.io/restore-name": "r", "velero.io/backup-name": "old", "velero.io/volume-group": "g"}},
            "spec": {"volumeName": "pv-1", "dataSource": {}, "storageClassName": "fast",
                "selector": {"matchLabels": {"velero.io/dynamic-pv-restore": "x"}}},
            "status": {"phase": phase},
        })
    }

    #[tokio::test]
    async fn a_bound_claim_brings_its_volume_and_loses_what_ties_it() {
        let outcome = ClaimAction.execute(claim("Bound"), &backup(), &Objects::default()).await.unwrap();
        assert_eq!(outcome.additional_items[0].to_string(), "persistentvolumes pv-1");
        assert_eq!(outcome.item["spec"], json!({"volumeName": "pv-1", "storageClassName": "fast"}));
        let labels = json!({"app": "db", "velero.io/volume-group": "g"});
        assert_eq!(outcome.item["metadata"]["labels"], labels);
    }

    #[tokio::test]
    async fn a_claim_that_waits_is_left_as_it_is() {
        let outcome = ClaimAction.execute(claim("Pending"), &backup(), &Objects::default()).await.unwrap();
        assert_eq!(outcome.item, claim("Pending"));
        assert!(outcome.additional_items.is_empty());
    }

    #[tokio::test]
    async fn the_selector_stays_where_no_class_makes_volumes() {
        let mut given = claim("Bound");
        given["spec"]["storageClassName"] = json!("");
        given["spec"]["selector"]["matchLabels"]["disk"] = json!("a");
        let outcome = ClaimAction.execute(given, &backup(), &Objects::default()).await.unwrap();
        assert_eq!(outcome.item["spec"]["selector"]["matchLabels"], json!({"disk": "a"}));
    }

    #[tokio::test]
    async fn pods_that_mount_a_claim_and_its_volume_group_are_one_block() {
        let pod = |name: &str, phase: &str| {
            json!({"metadata": {"namespace": "shop", "name": name}, "status": {"phase": phase},
                "spec": {"volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]}})
        };
        let mut other = claim("Bound");
        other["metadata"]["name"] = json!("other");
        let objects = Objects::new(&[
            ("pods", vec![pod("a", "Running"), pod("b", "Succeeded"), pod("c", "Running")]),
            ("persistentvolumeclaims", vec![claim("Bound"), other]),
        ]);
        let block = ClaimBlock::default();
        let expected =
            ["persistentvolumes pv-1", "pods shop/a", "pods shop/c", "persistentvolumeclaims shop/other"];
        for _ in 0..2 {
            let related = block.related_items(&claim("Bound"), &backup(), &objects).await.unwrap();
            assert_eq!(related.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
        }
        assert_eq!(objects.lists_of("pods"), 1, "pods are listed once for each backup and namespace");
    }
}
