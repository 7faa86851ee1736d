//! Actions that are configured by a ConfigMap in Lifeboat's namespace: other storage classes, other images.

use async_trait::async_trait;
use lifeboat_api::catalogue::{GroupResource, ItemId};
use lifeboat_plan::pod_volumes::{take_mark, wait_container};
use serde_json::{Map, Value, json};

use crate::actions::{ActionError, AppliesTo, Lookup, RestoreInput, RestoreItemAction, RestoreOutcome};

use super::{items, text};

/// Changes `spec.storageClassName` by a map from old to new names.
pub(super) struct ChangeStorageClass;

/// Changes images by rows of `old part, new part`.
pub(super) struct ChangeImageName;

/// Adds the init container in which a pod waits for the data of its volumes, if the restore annotated the pod for it.
pub(super) struct PodVolumeRestore;

/// The data of the ConfigMap that configures an action; None if there is no ConfigMap.
async fn config(
    action: &str,
    input: &RestoreInput<'_>,
    cluster: &dyn Lookup,
) -> Result<Option<Map<String, Value>>, ActionError> {
    let selector = format!("velero.io/plugin-config,{action}=RestoreItemAction");
    let namespace = input.restore.metadata.namespace.as_deref().unwrap_or_default();
    let maps = cluster.list(&GroupResource::new("", "configmaps"), Some(namespace), &selector).await?;
    if maps.len() > 1 {
        let names: Vec<_> = maps.iter().map(|map| text(map, "/metadata/name")).collect();
        return Err(ActionError::Failed(format!(
            "found more than one ConfigMap matching label selector {selector:?}: {}; keep one of them",
            names.join(", ")
        )));
    }
    let data = maps.first().and_then(|map| map["data"].as_object()).filter(|data| !data.is_empty());
    Ok(data.cloned())
}

#[async_trait]
impl RestoreItemAction for ChangeStorageClass {
    fn name(&self) -> &'static str {
        "velero.io/change-storage-class"
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        Ok(AppliesTo::resources(&["persistentvolumeclaims", "persistentvolumes", "statefulsets"]))
    }

    async fn execute(
        &self,
        input: RestoreInput<'_>,
        cluster: &dyn Lookup,
    ) -> Result<RestoreOutcome, ActionError> {
        let Some(classes) = config("velero.io/change-storage-class", &input, cluster).await? else {
            return Ok(RestoreOutcome::item(input.item));
        };
        let mut item = input.item;
        if item["kind"] == "StatefulSet" {
            for template in items(&mut item, "/spec/volumeClaimTemplates") {
                change_class(template, &classes, cluster).await?;
            }
        } else {
            change_class(&mut item, &classes, cluster).await?;
        }
        Ok(RestoreOutcome::item(item))
    }
}

async fn change_class(
    object: &mut Value,
    classes: &Map<String, Value>,
    cluster: &dyn Lookup,
) -> Result<(), ActionError> {
    let Some(class) = classes.get(text(object, "/spec/storageClassName")).and_then(Value::as_str) else {
        return Ok(());
    };
    let id = ItemId::cluster(GroupResource::new("storage.k8s.io", "storageclasses"), class);
    if cluster.get(&id).await?.is_none() {
        return Err(ActionError::Failed(format!(
            "error getting storage class {class} from API: there is none; correct the ConfigMap with label velero.io/change-storage-class"
        )));
    }
    object["spec"]["storageClassName"] = json!(class);
    Ok(())
}

#[async_trait]
impl RestoreItemAction for PodVolumeRestore {
    fn name(&self) -> &'static str {
        "velero.io/pod-volume-restore"
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        Ok(AppliesTo::resources(&["pods"]))
    }

    async fn execute(
        &self,
        mut input: RestoreInput<'_>,
        cluster: &dyn Lookup,
    ) -> Result<RestoreOutcome, ActionError> {
        let Some(wait) = take_mark(&mut input.item) else { return Ok(RestoreOutcome::item(input.item)) };
        let config = config("velero.io/pod-volume-restore", &input, cluster).await?.unwrap_or_default();
        let config = config.iter().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        let mut pod = input.item;
        let container = wait_container(&pod, &wait, &config.collect());
        match pod.pointer_mut("/spec/initContainers").and_then(Value::as_array_mut) {
            Some(containers) => containers.insert(0, container),
            None => pod["spec"]["initContainers"] = json!([container]),
        }
        Ok(RestoreOutcome::item(pod))
    }
}

#[async_trait]
impl RestoreItemAction for ChangeImageName {
    fn name(&self) -> &'static str {
        "velero.io/change-image-name"
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        Ok(AppliesTo::resources(&[
            "deployments",
            "statefulsets",
            "daemonsets",
            "replicasets",
            "replicationcontrollers",
            "jobs",
            "cronjobs",
            "pods",
        ]))
    }

    async fn execute(
        &self,
        input: RestoreInput<'_>,
        cluster: &dyn Lookup,
    ) -> Result<RestoreOutcome, ActionError> {
        let Some(rows) = config("velero.io/change-image-name", &input, cluster).await? else {
            return Ok(RestoreOutcome::item(input.item));
        };
        let mut item = input.item;
        let spec = match item["kind"].as_str() {
            Some("Pod") => "/spec",
            Some("CronJob") => "/spec/jobTemplate/spec/template/spec",
            _ => "/spec/template/spec",
        };
        for list in ["containers", "initContainers"] {
            for container in items(&mut item, &format!("{spec}/{list}")) {
                if let Some(image) = container["image"].as_str().and_then(|image| other_image(image, &rows)) {
                    container["image"] = json!(image);
                }
            }
        }
        Ok(RestoreOutcome::item(item))
    }
}

/// The image after the first row whose old part occurs in it.
fn other_image(image: &str, rows: &Map<String, Value>) -> Option<String> {
    rows.values().filter_map(Value::as_str).find_map(|row| {
        let (old, new) = row.split_once(',')?;
        let (old, new) = (old.trim(), new.trim());
        (!old.is_empty() && !new.is_empty() && image.contains(old)).then(|| image.replace(old, new))
    })
}
