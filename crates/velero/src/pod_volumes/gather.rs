//! Reads what determines the directory of a volume: pod, claim, volume, node.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use kube::Api;
use kube::ResourceExt;
use lifeboat_api::velero::names;
use lifeboat_cluster::{ApiError, Attempt};
use lifeboat_mover::task;
use lifeboat_plan::transfer::directory::{
    ClaimOf, Directory, DirectoryError, KUBELET_ROOT, Proof, claim_of, directory,
};
use lifeboat_plan::transfer::movers::DATA;
use lifeboat_transfer::attempts::{NotPrepared, WorkContext};
use serde_json::Value;

pub(super) async fn pod(work: &WorkContext, namespace: &str, name: &str) -> Result<Option<Value>, ApiError> {
    let api: Api<Pod> = Api::namespaced(work.core.client.clone(), namespace);
    let found = api.get_opt(name).await.attempt(format!("read Pod {namespace}/{name}"))?;
    Ok(found.and_then(|pod| serde_json::to_value(pod).ok()))
}

/// The volume's entry in the pod's spec.
pub(super) fn volume<'a>(pod: &'a Value, name: &str) -> Option<&'a Value> {
    pod["spec"]["volumes"].as_array()?.iter().find(|volume| volume["name"] == name)
}

/// The claim of a pod's volume, if it has one.
pub(super) async fn claim(
    work: &WorkContext,
    pod: &Value,
    volume: &Value,
) -> Result<Option<ClaimOf>, NotPrepared> {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    let Some(name) = claim_of(text("name"), volume) else { return Ok(None) };
    let client = work.core.client.clone();
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), text("namespace"));
    let found = claims.get_opt(&name).await.attempt(format!("read PersistentVolumeClaim {name}"))?;
    let Some(found) = found else {
        return Err(NotPrepared::Because(format!("claim {}/{name} does not exist", text("namespace"))));
    };
    let bound = found.spec.as_ref().and_then(|spec| spec.volume_name.clone()).filter(|name| !name.is_empty());
    let volume = match bound {
        Some(name) => {
            let volumes: Api<PersistentVolume> = Api::all(client);
            let found = volumes.get_opt(&name).await.attempt(format!("read PersistentVolume {name}"))?;
            found.and_then(|volume| serde_json::to_value(volume).ok())
        }
        None => None,
    };
    Ok(Some(ClaimOf { claim: serde_json::to_value(found).unwrap_or_default(), volume }))
}

/// The directory of the volume on its node.
pub(super) async fn directory_on_node(
    work: &WorkContext,
    pod: &Value,
    volume: &Value,
    claim: Option<&ClaimOf>,
) -> Result<(String, Directory), NotPrepared> {
    let settings = &work.settings;
    if !settings.node_access {
        return Err(NotPrepared::Because(
            "copying the files of volumes needs access to directories of nodes, which is off; turn it on with `lifeboat install --node-access`, or the chart's value nodeAccess"
                .to_owned(),
        ));
    }
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
    if node.is_empty() {
        return Err(NotPrepared::Because("the pod is on no node".to_owned()));
    }
    let nodes: Api<Node> = Api::all(work.core.client.clone());
    let found = match nodes.get_opt(&node).await.attempt(format!("read Node {node}")) {
        Ok(found) => found,
        // Without permission to read nodes, the setting is used.
        Err(error) if error.code() == Some(403) => None,
        Err(error) => return Err(error.into()),
    };
    let root = found.and_then(|node| node.annotations().get(KUBELET_ROOT).cloned());
    let root = root.unwrap_or_else(|| settings.kubelet_root.clone());
    directory(&root, pod, volume, claim)
        .map(|found| (node, found))
        .map_err(|error| NotPrepared::Because(message(&error)))
}

/// The error, and what the owner of the backup can do.
fn message(error: &DirectoryError) -> String {
    match error {
        DirectoryError::Kind { .. } => {
            let annotation = names::BACKUP_VOLUMES_EXCLUDES;
            format!("{error}; leave it out with the annotation {annotation} or a volume policy")
        }
        _ => error.to_string(),
    }
}

/// The volume's directory as the mover sees it.
pub(super) fn in_mover(directory: &Directory) -> (PathBuf, task::Proof) {
    let data = PathBuf::from(DATA);
    let proof = match &directory.proof {
        Proof::Csi { file, driver, handle } => {
            task::Proof::Csi { file: data.join(file), driver: driver.clone(), handle: handle.clone() }
        }
        Proof::MountPoint => task::Proof::MountPoint,
        Proof::Directory => task::Proof::Directory,
    };
    let path = if directory.path.is_empty() { data } else { data.join(&directory.path) };
    (path, proof)
}
