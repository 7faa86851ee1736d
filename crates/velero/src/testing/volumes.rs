//! For tests: a volume snapshotter of functions, which notes every call.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::future::BoxFuture;
use lifeboat_plugin::ActionError;
use lifeboat_plugin::volume::{
    ProgressOf, SnapshotRequest, VolumeInfo, VolumeProgress, VolumeRequest, VolumeSnapshotter,
};
use serde_json::{Value, json};

type Answer<T> = BoxFuture<'static, Result<T, ActionError>>;
type Function<A, T> = Arc<dyn Fn(A) -> Answer<T> + Send + Sync>;

/// Volumes are CSI volumes of driver `fake`; snapshots are named `snap-VOLUME`, volumes `vol-SNAPSHOT`.
#[derive(Clone, Default)]
pub(crate) struct FakeSnapshotter {
    /// Every call with what it was for, such as `CreateSnapshot vol-1`.
    pub(crate) calls: Arc<Mutex<Vec<String>>>,
    pub(crate) init: Option<Function<(), bool>>,
    pub(crate) create_snapshot: Option<Function<SnapshotRequest, String>>,
    pub(crate) create_volume: Option<Function<VolumeRequest, String>>,
    pub(crate) set_volume_id: Option<Function<(Value, String), Value>>,
    pub(crate) delete_snapshot: Option<Function<String, ()>>,
    pub(crate) progress: Option<Function<ProgressOf, Option<VolumeProgress>>>,
}

/// A function of these fields, from one that answers at once.
pub(crate) fn at_once<A, T: Send + 'static>(
    answer: impl Fn(A) -> Result<T, ActionError> + Send + Sync + 'static,
) -> Function<A, T> {
    Arc::new(move |asked| {
        let answer = answer(asked);
        Box::pin(async move { answer })
    })
}

/// A function that never answers.
pub(crate) fn never<A, T: Send + 'static>() -> Function<A, T> {
    Arc::new(|_| Box::pin(std::future::pending()))
}

/// An error in these words.
pub(crate) fn failing<A, T: Send + 'static>(message: &'static str) -> Function<A, T> {
    at_once(move |_| Err(ActionError::Failed(message.to_owned())))
}

impl FakeSnapshotter {
    pub(crate) fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }

    fn note(&self, call: &str, what: &str) {
        self.calls.lock().unwrap().push(format!("{call} {what}"));
    }
}

#[async_trait]
impl VolumeSnapshotter for FakeSnapshotter {
    fn name(&self) -> &'static str {
        "velero.io/fake"
    }

    async fn volume_id(&self, volume: &Value) -> Result<Option<String>, ActionError> {
        let csi = &volume["spec"]["csi"];
        Ok((csi["driver"] == "fake").then(|| csi["volumeHandle"].as_str().unwrap_or_default().to_owned()))
    }

    async fn with_volume_id(&self, volume: &Value, volume_id: &str) -> Result<Value, ActionError> {
        self.note("SetVolumeID", volume_id);
        if let Some(function) = &self.set_volume_id {
            return function((volume.clone(), volume_id.to_owned())).await;
        }
        let mut volume = volume.clone();
        volume["spec"]["csi"] = json!({"driver": "fake", "volumeHandle": volume_id});
        Ok(volume)
    }

    async fn volume_info(&self, volume_id: &str, _: &str) -> Result<VolumeInfo, ActionError> {
        self.note("GetVolumeInfo", volume_id);
        Ok(VolumeInfo { volume_type: "fast".into(), iops: Some(7) })
    }

    async fn create_snapshot(&self, request: &SnapshotRequest) -> Result<String, ActionError> {
        self.note("CreateSnapshot", &request.volume_id);
        match &self.create_snapshot {
            Some(function) => function(request.clone()).await,
            None => Ok(format!("snap-{}", request.volume_id)),
        }
    }

    async fn delete_snapshot(&self, snapshot_id: &str) -> Result<(), ActionError> {
        self.note("DeleteSnapshot", snapshot_id);
        match &self.delete_snapshot {
            Some(function) => function(snapshot_id.to_owned()).await,
            None => Ok(()),
        }
    }

    async fn create_volume(&self, request: &VolumeRequest) -> Result<String, ActionError> {
        let VolumeRequest { snapshot_id, zone, info } = request;
        let iops = info.iops.unwrap_or_default();
        let what = format!("{snapshot_id} {zone} {} {iops}", info.volume_type);
        self.note("CreateVolumeFromSnapshot", what.trim());
        match &self.create_volume {
            Some(function) => function(request.clone()).await,
            None => Ok(format!("vol-{snapshot_id}")),
        }
    }

    async fn reports_progress(&self) -> Result<bool, ActionError> {
        match &self.init {
            Some(function) => function(()).await,
            None => Ok(self.progress.is_some()),
        }
    }

    async fn progress(&self, of: &ProgressOf) -> Result<Option<VolumeProgress>, ActionError> {
        match &self.progress {
            Some(function) => function(of.clone()).await,
            None => Ok(None),
        }
    }
}
