//! Claims that are restored from CSI snapshots: the restore waits until their volumes exist, because a driver that
//! cannot find a snapshot reports it only in events, and the restore must not complete then.

use std::collections::{BTreeMap, BTreeSet};

use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt};
use lifeboat_archive::documents::{BackupVolumeInfo, RestoreVolumeInfo};
use lifeboat_cluster::write::{Throttle, Writer};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::transfer::provisioning::{Provisioning, awaits_pod, provisioning};
use serde_json::Value;
use tokio::time::Instant;

use super::finalize::{PAUSE, target};
use super::{FinishingRestore, RestoreError};

/// The entries of restored claims in the restore's volume info.
pub(in crate::restore) fn infos(
    volumes: &[BackupVolumeInfo],
    filled: &BTreeSet<(String, String)>,
    mapping: &BTreeMap<String, String>,
) -> Vec<RestoreVolumeInfo> {
    let place = |info: &BackupVolumeInfo| {
        let namespace = mapping.get(&info.pvc_namespace).unwrap_or(&info.pvc_namespace).clone();
        (namespace, info.pvc_name.clone())
    };
    let of_csi = volumes.iter().filter(|info| info.backup_method == "CSISnapshot");
    of_csi
        .filter(|info| filled.contains(&place(info)))
        .map(|info| {
            let (pvc_namespace, pvc_name) = place(info);
            RestoreVolumeInfo {
                pvc_name,
                pvc_namespace,
                pv_name: info.pv_name.clone(),
                restore_method: info.backup_method.clone(),
                snapshot_data_moved: info.snapshot_data_moved,
                csi_snapshot_info: info.csi_snapshot_info.clone(),
                snapshot_data_movement_info: info.snapshot_data_movement_info.clone(),
                ..RestoreVolumeInfo::default()
            }
        })
        .collect()
}

/// Waits for the volumes of claims that are created from snapshots. The error means that the restore was cancelled.
pub(in crate::restore) async fn await_volumes(rest: &mut FinishingRestore<'_>) -> Result<(), RestoreError> {
    let mapping = rest.restore.spec.namespace_mapping.clone().unwrap_or_default();
    let mut open: Vec<(String, String)> = Vec::new();
    for info in rest.volumes.iter().filter(|info| info.backup_method == "CSISnapshot") {
        let namespace = mapping.get(&info.pvc_namespace).unwrap_or(&info.pvc_namespace).clone();
        if !info.snapshot_data_moved && rest.created("v1/PersistentVolumeClaim", &namespace, &info.pvc_name) {
            open.push((namespace, info.pvc_name.clone()));
        }
    }
    let writer = Writer::new(rest.context.client.clone(), Throttle::default().into());
    let (start, before) = (Instant::now(), rest.results.clone());
    while !open.is_empty() {
        let mut waiting = Vec::new();
        for (namespace, name) in open {
            match poll(rest, &writer, &namespace, &name, start).await {
                Ok(Provisioning::Bound | Provisioning::Unused) => {}
                Ok(Provisioning::Wait) => waiting.push((namespace, name)),
                Ok(Provisioning::Failed(reason)) => {
                    let message = format!(
                        "claim {namespace}/{name} gets no volume from its CSI snapshot: {reason}; a snapshot that exists on one node \
                         only needs the pod there, one that is gone needs another backup"
                    );
                    rest.error(Some(&namespace), message);
                }
                Err(error) if error.is_transient() && start.elapsed() < limit(rest) => {
                    waiting.push((namespace, name));
                }
                Err(error) => {
                    let message = format!(
                        "it is not known whether claim {namespace}/{name} gets a volume from its CSI snapshot: {}",
                        error.chain()
                    );
                    rest.error(Some(&namespace), message);
                }
            }
        }
        open = waiting;
        if !open.is_empty() {
            rest.pause(PAUSE).await?;
        }
    }
    if rest.results != before {
        rest.show().await;
    }
    Ok(())
}

fn limit(rest: &FinishingRestore<'_>) -> std::time::Duration {
    rest.context.settings.restore.resource_timeout
}

async fn poll(
    rest: &FinishingRestore<'_>,
    writer: &Writer,
    namespace: &str,
    name: &str,
    start: Instant,
) -> Result<Provisioning, ApiError> {
    let claim = writer.get(&target("v1", "PersistentVolumeClaim", Some(namespace), name)).await?;
    // A claim that gets its data in another way is followed elsewhere.
    if claim.as_ref().is_some_and(|claim| claim["spec"]["dataSource"]["kind"] != "VolumeSnapshot") {
        return Ok(Provisioning::Bound);
    }
    let phase = claim.as_ref().map(|claim| claim["status"]["phase"].clone());
    let bound = phase.is_some_and(|phase| phase == "Bound");
    let (mut class, mut events, mut pods) = (None, Vec::new(), Vec::new());
    if let Some(claim) = claim.as_ref().filter(|_| !bound) {
        if let Some(name) = claim["spec"]["storageClassName"].as_str().filter(|name| !name.is_empty()) {
            class = writer.get(&target("storage.k8s.io/v1", "StorageClass", None, name)).await?;
        }
        events = events_of(rest, claim, namespace, name).await?;
        if awaits_pod(claim, class.as_ref()) {
            pods = pods_of(rest, namespace).await?;
        }
    }
    Ok(provisioning(claim.as_ref(), class.as_ref(), &events, &pods, start.elapsed(), limit(rest)))
}

/// The pods that may mount a claim.
async fn pods_of(rest: &FinishingRestore<'_>, namespace: &str) -> Result<Vec<Value>, ApiError> {
    let resource = objects::resource("", "v1", "Pod", "pods");
    let api: Api<DynamicObject> = objects::namespaced(&rest.context.client, namespace, &resource);
    let found = api.list(&ListParams::default()).await.attempt("list the pods of a claim's namespace")?;
    Ok(found.items.iter().map(objects::to_json).collect())
}

/// The events of this claim, by UID.
async fn events_of(
    rest: &FinishingRestore<'_>,
    claim: &Value,
    namespace: &str,
    name: &str,
) -> Result<Vec<Value>, ApiError> {
    let resource = objects::resource("", "v1", "Event", "events");
    let api: Api<DynamicObject> = objects::namespaced(&rest.context.client, namespace, &resource);
    let fields = format!("involvedObject.kind=PersistentVolumeClaim,involvedObject.name={name}");
    match api.list(&ListParams::default().fields(&fields)).await {
        // Without permission to read events, the restore waits until the time limit.
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => Ok(Vec::new()),
        listed => {
            let mut found = listed.attempt("list the events of a claim")?.items;
            found.sort_by_key(|event| event.creation_timestamp().map(|time| time.0));
            let events = found.iter().map(objects::to_json);
            Ok(events.filter(|event| event["involvedObject"]["uid"] == claim["metadata"]["uid"]).collect())
        }
    }
}
