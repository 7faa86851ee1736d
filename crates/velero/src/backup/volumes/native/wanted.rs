//! Whether a snapshot of a volume is wanted, by policies, file copies and the spec. Asked by the pass, for plugin
//! snapshots and for CSI snapshots.

use std::sync::Arc;

use lifeboat_cluster::list::{ListQuery, Pager, get_raw};
use lifeboat_control::locked;
use lifeboat_plan::catalogue::GroupResource;
use lifeboat_plan::velero::backup::snapshots::is_wanted;
use lifeboat_plan::velero::backup::volumes::{VolumeBook, VolumeSettings};
use serde_json::Value;

use super::{Pods, PodsUnknown, Unwanted};
use crate::backup::pass::Pass;
use crate::backup::problem::ReadError;

impl Pass {
    pub(super) async fn snapshot_wanted(&self, volume: &Value) -> Result<(), Unwanted> {
        if self.snapshotters.leave_csi && volume["spec"].get("csi").is_some() {
            let message = "volumes of CSI drivers are not for volume snapshotters while EnableCSI is on";
            return Err(Unwanted::Because(message.to_owned()));
        }
        let taken = self.is_for_csi(volume).await;
        if taken.map_err(|error| Unwanted::Unknown(error.to_string()))? {
            return Err(Unwanted::Because("its CSI driver takes it with its claim".to_owned()));
        }
        self.wanted(volume).await
    }

    /// Whether policies, file copies and the spec ask for a snapshot, of a volume plugin or of a CSI driver.
    pub(in crate::backup) async fn wanted(&self, volume: &Value) -> Result<(), Unwanted> {
        let wishes = VolumeSettings::new(&self.backup.spec, self.valid.policies.as_ref());
        let text = |path: &str| volume.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (namespace, name) = (text("/spec/claimRef/namespace"), text("/spec/claimRef/name"));
        let claim = match wishes.policies {
            Some(_) if !name.is_empty() => {
                let claim = self.claim(&namespace, &name).await;
                claim.map_err(|error| Unwanted::Unknown(error.to_string()))?
            }
            _ => None,
        };
        let pods = if name.is_empty() {
            Arc::default()
        } else {
            self.pods(&namespace).await.map_err(|error| Unwanted::Unknown(error.to_string()))?
        };
        is_wanted(volume, claim.as_ref(), &pods, &wishes).map_err(|why| Unwanted::Because(why.to_string()))
    }

    async fn claim(&self, namespace: &str, name: &str) -> Result<Option<Value>, ReadError> {
        let resource = GroupResource::new("", "persistentvolumeclaims");
        let Some(kind) = self.catalogue.get(&resource) else { return Ok(None) };
        let found = get_raw(&self.client, kind, Some(namespace), name).await?;
        Ok(found.map(|item| serde_json::from_slice(&item.json)).transpose()?)
    }

    /// What the pods of a namespace mount; they are listed once for each pass.
    pub(in crate::backup) async fn pods(&self, namespace: &str) -> Pods {
        let cell = locked(&self.pods.0).entry(namespace.to_owned()).or_default().clone();
        cell.get_or_init(|| self.list_pods(namespace)).await.clone()
    }

    /// What the pods of a namespace mount now.
    pub(in crate::backup) async fn list_pods(&self, namespace: &str) -> Pods {
        let mut book = VolumeBook::default();
        let Some(kind) = self.catalogue.get(&GroupResource::new("", "pods")).cloned() else {
            return Ok(Arc::default());
        };
        let query = ListQuery {
            kind,
            namespace: Some(namespace.to_owned()),
            selector: String::new(),
            page_size: self.page_size,
        };
        let mut pager = Pager::new(self.client.clone(), query);
        while let Some(page) = pager.next().await.map_err(|error| PodsUnknown(Arc::new(error)))? {
            for item in &page.items {
                if let Ok(pod) = serde_json::from_slice::<Value>(&item.json) {
                    book.add_pod(&pod);
                }
            }
        }
        Ok(Arc::new(book))
    }
}
