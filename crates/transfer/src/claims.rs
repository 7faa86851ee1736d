//! PersistentVolumeClaims and PersistentVolumes in the cluster: read, create, patch, delete. Every step can be
//! repeated.

use std::time::Duration;

use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use lifeboat_cluster::{ApiError, Attempt, MANAGER, objects};
use serde_json::{Value, json};

use crate::snapshots::PollTimer;

#[derive(Clone)]
pub struct Claims {
    client: Client,
}

impl Claims {
    pub fn new(client: &Client) -> Self {
        Self { client: client.clone() }
    }

    fn of(&self, namespace: &str) -> Api<DynamicObject> {
        let resource = objects::resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
        objects::namespaced(&self.client, namespace, &resource)
    }

    fn cluster(&self, group: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &objects::resource(group, "v1", kind, plural))
    }

    fn volumes(&self) -> Api<DynamicObject> {
        self.cluster("", "PersistentVolume", "persistentvolumes")
    }

    pub async fn get(&self, namespace: &str, name: &str) -> Result<Option<Value>, ApiError> {
        let found = self.of(namespace).get_opt(name).await;
        let found = found.attempt(format!("read PersistentVolumeClaim {namespace}/{name}"))?;
        Ok(found.as_ref().map(objects::to_json))
    }

    pub async fn volume(&self, name: &str) -> Result<Option<Value>, ApiError> {
        let found = self.volumes().get_opt(name).await.attempt(format!("read PersistentVolume {name}"))?;
        Ok(found.as_ref().map(objects::to_json))
    }

    pub async fn class(&self, name: &str) -> Result<Option<Value>, ApiError> {
        let classes = self.cluster("storage.k8s.io", "StorageClass", "storageclasses");
        let found = classes.get_opt(name).await.attempt(format!("read StorageClass {name}"))?;
        Ok(found.as_ref().map(objects::to_json))
    }

    pub async fn nodes(&self) -> Result<Vec<Value>, ApiError> {
        let listed = self.cluster("", "Node", "nodes").list(&ListParams::default()).await;
        Ok(listed.attempt("list nodes")?.items.iter().map(objects::to_json).collect())
    }

    pub async fn pods(&self, namespace: &str) -> Result<Vec<Value>, ApiError> {
        let pods = objects::namespaced(&self.client, namespace, &objects::resource("", "v1", "Pod", "pods"));
        let listed = pods.list(&ListParams::default()).await.attempt(format!("list Pods of {namespace}"))?;
        Ok(listed.items.iter().map(objects::to_json).collect())
    }

    /// Creates the claim; one with this name that exists is adopted.
    pub async fn make(&self, wanted: &Value) -> Result<(), ApiError> {
        let text = |pointer: &str| wanted.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let attempt = format!("create PersistentVolumeClaim {}", text("/metadata/name"));
        let object = serde_json::from_value(wanted.clone()).map_err(kube::Error::SerdeError);
        let object: DynamicObject = object.attempt(attempt.clone())?;
        let claims = self.of(text("/metadata/namespace"));
        let refusal = match claims.create(&PostParams::default(), &object).await {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => return Ok(()),
            refusal => refusal.attempt(attempt.clone()),
        };
        // A full quota refuses before the API server looks whether the claim exists.
        let is_refusal = matches!(&refusal, Err(error) if matches!(error.code(), Some(403 | 422)));
        if is_refusal && claims.get_opt(text("/metadata/name")).await.attempt(attempt)?.is_some() {
            return Ok(());
        }
        refusal.map(drop)
    }

    pub async fn change(&self, namespace: &str, name: &str, patch: &Value) -> Result<(), ApiError> {
        let changed = self.of(namespace).patch(name, &params(), &Patch::Merge(patch)).await;
        changed.attempt(format!("change PersistentVolumeClaim {namespace}/{name}")).map(drop)
    }

    pub async fn change_volume(&self, name: &str, patch: &Value) -> Result<(), ApiError> {
        let changed = self.volumes().patch(name, &params(), &Patch::Merge(patch)).await;
        changed.attempt(format!("change PersistentVolume {name}")).map(drop)
    }

    pub async fn delete(&self, namespace: &str, name: &str) -> Result<(), ApiError> {
        let deleted = self.of(namespace).delete(name, &DeleteParams::default()).await;
        gone(deleted.attempt(format!("delete PersistentVolumeClaim {namespace}/{name}")).map(drop))
    }

    /// Deletes this claim, unless it was changed since it was read.
    pub async fn delete_unchanged(&self, claim: &Value) -> Result<(), ApiError> {
        let given = |at: &str| {
            claim.pointer(at).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let (namespace, name) = (given("/metadata/namespace"), given("/metadata/name"));
        let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
        let (uid, resource_version) = (given("/metadata/uid"), given("/metadata/resourceVersion"));
        let params = DeleteParams::default().preconditions(Preconditions { uid, resource_version });
        let deleted = self.of(&namespace).delete(&name, &params).await;
        gone(deleted.attempt(format!("delete PersistentVolumeClaim {namespace}/{name}")).map(drop))
    }

    /// Deletes the claim together with its volume, whatever reclaim policy its class sets. A volume that the claim
    /// only names, and that belongs to another claim, is not changed, because a user who creates a claim may write
    /// any name into it.
    pub async fn delete_with_volume(&self, namespace: &str, name: &str) -> Result<(), ApiError> {
        let Some(claim) = self.get(namespace, name).await? else { return Ok(()) };
        if let Some(volume) = claim["spec"]["volumeName"].as_str().filter(|volume| !volume.is_empty()) {
            let found = self.volume(volume).await?;
            let of = found.map(|found| found["spec"]["claimRef"].clone()).unwrap_or_default();
            if of["namespace"] == *namespace && of["name"] == *name {
                self.set_delete_policy(volume).await?;
            }
        }
        self.delete(namespace, name).await
    }

    /// Sets the reclaim policy so that the volume is deleted with its claim; a volume whose claim is gone is deleted
    /// now.
    pub async fn set_delete_policy(&self, volume: &str) -> Result<(), ApiError> {
        let patch = json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}});
        gone(self.change_volume(volume, &patch).await)
    }

    /// Waits until the claim is gone; false if it still exists after `limit`.
    pub async fn is_gone(&self, namespace: &str, name: &str, limit: Duration) -> Result<bool, ApiError> {
        let timer = PollTimer::new(limit);
        loop {
            match self.get(namespace, name).await {
                Ok(None) => return Ok(true),
                Ok(Some(_)) => {}
                Err(error) if error.is_transient() => {}
                Err(error) => return Err(error),
            }
            if !timer.pause().await {
                return Ok(false);
            }
        }
    }

    /// The last warning of the provisioner about a claim that gets no volume.
    pub async fn complaint(&self, namespace: &str, name: &str) -> Option<String> {
        let resource = objects::resource("", "v1", "Event", "events");
        let fields = format!("involvedObject.kind=PersistentVolumeClaim,involvedObject.name={name}");
        let api: Api<DynamicObject> = objects::namespaced(&self.client, namespace, &resource);
        let mut events = api.list(&ListParams::default().fields(&fields)).await.ok()?.items;
        events.sort_by_key(|event| event.creation_timestamp().map(|time| time.0));
        let failed = events.iter().filter(|event| event.data["reason"] == "ProvisioningFailed");
        failed.filter_map(|event| event.data["message"].as_str().map(str::to_owned)).next_back()
    }

    /// The claims with the label that movers' claims have.
    pub async fn made_for(&self, namespace: &str, label: &str) -> Result<Vec<Value>, ApiError> {
        let listed = self.of(namespace).list(&ListParams::default().labels(label)).await;
        let items = listed.attempt("list the claims of movers")?.items;
        let fits = |claim: &Value| claim["metadata"]["labels"].get(label).is_some();
        Ok(items.iter().map(objects::to_json).filter(fits).collect())
    }
}

fn params() -> PatchParams {
    PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() }
}

fn gone(done: Result<(), ApiError>) -> Result<(), ApiError> {
    match done {
        Err(error) if error.is_not_found() => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests;
