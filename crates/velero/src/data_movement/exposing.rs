//! Shows a snapshot to a mover: a content with the same handle, a VolumeSnapshot and a claim, all in the movers' namespace;
//! and takes them away again. The source is left as it is meanwhile.

use std::time::Duration;

use lifeboat_api::velero::DataUpload;
use lifeboat_cluster::ApiError;
use lifeboat_plan::velero::csi;
use lifeboat_plan::velero::data_movement::{
    Exposure, exposed_claim, exposed_content, exposed_name, exposed_snapshot, node, waits_for_pods,
};
use lifeboat_transfer::attempts::{AttemptRecord, NotPrepared, WorkContext};
use lifeboat_transfer::claims::Claims;
use lifeboat_transfer::snapshots::{Patience, Snapshots};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::transfers::ObjectRecord;

/// What a mover can read.
pub(super) struct Exposed {
    /// In the movers' namespace.
    pub(super) claim: String,
    pub(super) block: bool,
    /// The only node on which it can be read, where there is only one and the volume does not say so itself.
    pub(super) node: Option<String>,
}

pub(super) async fn expose(
    work: &WorkContext,
    record: &ObjectRecord,
    object: &DataUpload,
    limit: Duration,
    cancel: &CancellationToken,
) -> Result<Exposed, NotPrepared> {
    let (spec, uid) = (&object.spec, record.uid.as_str());
    let Some(source) = &spec.csi_snapshot else {
        return Err(NotPrepared::Because(
            "spec.csiSnapshot is missing: only CSI snapshots can be moved".to_owned(),
        ));
    };
    let snapshots = Snapshots::new(&work.core.client);
    let claims = Claims::new(&work.core.client);
    let content =
        ready(&snapshots, record, &spec.source_namespace, &source.volume_snapshot, limit, cancel).await?;
    let (name, namespace) = (exposed_name(uid), work.settings.namespace.as_str());
    let class = source.snapshot_class.as_deref().unwrap_or_default();
    let claim = claims.get(&spec.source_namespace, &spec.source_pvc).await?;
    let exposure = Exposure { name: &name, namespace, uid, server: &work.core.namespace };
    snapshots.make_content(&exposed_content(&content, exposure, class)).await?;
    snapshots.make(&exposed_snapshot(exposure)).await?;
    let wanted = exposed_claim(exposure, claim.as_ref(), &content, &source.storage_class);
    claims.make(&wanted).await?;
    let volume = claim.as_ref().and_then(|claim| claim["spec"]["volumeName"].as_str());
    let volume = match volume.filter(|volume| !volume.is_empty()) {
        Some(volume) => claims.volume(volume).await?,
        None => None,
    };
    // A class that makes volumes at once chooses where; one that waits follows the mover.
    let class = claims.class(wanted["spec"]["storageClassName"].as_str().unwrap_or_default()).await?;
    let follows = class.is_some_and(|class| waits_for_pods(&class));
    let nodes = if follows { claims.nodes().await? } else { Vec::new() };
    let node = node(&content, volume.as_ref(), &nodes).filter(|_| follows);
    Ok(Exposed { claim: name, block: wanted["spec"]["volumeMode"] == "Block", node })
}

/// Waits until volumes can be made from the snapshot; gives its content.
async fn ready(
    snapshots: &Snapshots,
    record: &ObjectRecord,
    namespace: &str,
    name: &str,
    limit: Duration,
    cancel: &CancellationToken,
) -> Result<Value, NotPrepared> {
    let (patience, mut written) = (Patience::new(limit), String::new());
    loop {
        let Some(snapshot) = snapshots.snapshot(namespace, name).await? else {
            return Err(NotPrepared::Because(format!("VolumeSnapshot {namespace}/{name} is gone")));
        };
        let content = match csi::bound_content(&snapshot) {
            Some(content) => snapshots.content(content).await?,
            None => None,
        };
        let trouble = csi::trouble(&snapshot).or_else(|| content.as_ref().and_then(csi::trouble));
        if let Some(content) = content.filter(csi::is_ready) {
            return Ok(content);
        }
        let message = trouble.unwrap_or_else(|| "its driver is not done with it".to_owned());
        let message = format!("snapshot {namespace}/{name} is not ready to use: {message}");
        if cancel.is_cancelled() || !patience.pause().await {
            return Err(NotPrepared::Because(message));
        }
        if message != written {
            record.waiting(&message).await?;
            written = message;
        }
    }
}

/// Takes away what was made for the mover. The driver's snapshot stays.
pub(super) async fn hide(work: &WorkContext, uid: &str) -> Result<(), ApiError> {
    let (name, namespace) = (exposed_name(uid), work.settings.namespace.as_str());
    Claims::new(&work.core.client).delete_with_volume(namespace, &name).await?;
    Snapshots::new(&work.core.client).take_away(namespace, &name, Some(&name), false).await
}
