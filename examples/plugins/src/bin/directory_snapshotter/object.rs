//! The progress of a copy as an object of Kubernetes that this plugin writes itself: a VolumePluginBackup named like the
//! snapshot, or a VolumePluginRestore. Other snapshotters need none of this: a plugin that answers `snapshot_progress` is shown
//! by Lifeboat. It is here for plugins that must be seen under Velero too, and to test the meeting of both.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use lifeboat_plugin_sdk::{Error, Result, SnapshotRequest, VolumeProgress};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::copy::Meter;

const PLUGIN: &str = "example.io/directory-snapshotter";
const PAUSE: Duration = Duration::from_millis(500);

/// What is to be shown.
pub(crate) struct Shown {
    kind: &'static str,
    /// None for a name that the API server makes.
    name: Option<String>,
    spec: Value,
    /// What the status says beside progress.
    known: Value,
}

impl Shown {
    pub(crate) fn snapshot(id: &str, request: &SnapshotRequest) -> Self {
        let tag = |name: &str| request.tags.get(name).cloned().unwrap_or_default();
        let spec = json!({"volume": tag("velero.io/pv"), "backup": tag("velero.io/backup"), "plugin": PLUGIN,
            "pluginSpecific": {"method": "copy"}});
        Self { kind: "VolumePluginBackup", name: Some(id.to_owned()), spec, known: json!({"snapshotID": id}) }
    }

    /// The backup is not known here.
    pub(crate) fn volume(snapshot_id: &str, volume_id: &str) -> Self {
        let specific = json!({"method": "copy"});
        let spec =
            json!({"snapshotID": snapshot_id, "backup": "", "plugin": PLUGIN, "pluginSpecific": specific});
        Self { kind: "VolumePluginRestore", name: None, spec, known: json!({"volumeID": volume_id}) }
    }

    /// Writes until the copy has ended.
    pub(crate) fn follow(self, meter: Arc<Meter>) -> JoinHandle<()> {
        tokio::spawn(async move {
            if let Err(error) = self.write(&meter).await {
                tracing::warn!(kind = self.kind, %error, "cannot show the progress");
            }
        })
    }

    async fn write(&self, meter: &Meter) -> Result<()> {
        let api = self.api().await?;
        let resource = resource(self.kind);
        let mut object = DynamicObject::new(self.name.as_deref().unwrap_or_default(), &resource);
        if self.name.is_none() {
            object.metadata.name = None;
            object.metadata.generate_name = Some("directory-".to_owned());
        }
        object.data = json!({"spec": self.spec, "status": self.status(&meter.progress())});
        let name = api.create(&PostParams::default(), &object).await?.name_any();
        loop {
            tokio::time::sleep(PAUSE).await;
            let progress = meter.progress();
            let patch = Patch::Merge(json!({"status": self.status(&progress)}));
            api.patch(&name, &PatchParams::default(), &patch).await?;
            if progress.completed.is_some() {
                return Ok(());
            }
        }
    }

    fn status(&self, progress: &VolumeProgress) -> Value {
        let mut status = json!({
            "phase": progress.phase,
            "message": progress.message,
            "progress": {"totalBytes": progress.total_bytes, "bytesDone": progress.bytes_done},
        });
        let times = [("startTimestamp", progress.started), ("completionTimestamp", progress.completed)];
        if let (Some(status), Some(known)) = (status.as_object_mut(), self.known.as_object()) {
            status.extend(known.clone());
            status.extend(times.into_iter().filter_map(|(key, at)| Some((key.to_owned(), time(at?).into()))));
        }
        status
    }

    async fn api(&self) -> Result<Api<DynamicObject>> {
        let namespace = std::env::var("VELERO_NAMESPACE").map_err(|_| {
            Error::new("VELERO_NAMESPACE is not set: the host says there where its objects are")
        })?;
        Ok(Api::namespaced_with(Client::try_default().await?, &namespace, &resource(self.kind)))
    }
}

fn resource(kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("velero.io", "v1", kind))
}

fn time(at: SystemTime) -> String {
    let at = jiff::Timestamp::try_from(at).unwrap_or_default();
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
