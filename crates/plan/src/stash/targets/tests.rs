//! Objects for the tests of `targets`, as the API server has them.

mod backup;
mod claims;
mod devices;
mod mounts;
mod pods;
mod reading;
mod restore;
mod snapshotted;

use k8s_openapi::api::core::v1::VolumeMount;
use lifeboat_api::stash::{BackupTarget, TargetRef};
use serde_json::{Value, json};

use super::*;

pub(super) fn mount(name: &str, mount_path: &str) -> VolumeMount {
    VolumeMount { name: name.into(), mount_path: mount_path.into(), ..VolumeMount::default() }
}

/// A target with an alias, so that hosts show it.
pub(super) fn backup_target(kind: TargetKind, mounts: &[(&str, &str)], paths: &[&str]) -> BackupTarget {
    BackupTarget {
        alias: Some("app".into()),
        reference: TargetRef { kind: kind.as_str().into(), name: "web".into(), ..TargetRef::default() },
        volume_mounts: mounts.iter().map(|(name, path)| mount(name, path)).collect(),
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        ..BackupTarget::default()
    }
}

/// A Ready pod of `web` on a node, created in this minute of the hour, with these volumes.
#[allow(clippy::needless_pass_by_value, reason = "tables give JSON literals")]
pub(super) fn pod(name: &str, node: &str, minute: u32, volumes: Value) -> Value {
    let mounts: Vec<Value> = volumes
        .as_array()
        .into_iter()
        .flatten()
        .map(|volume| json!({"name": volume["name"], "mountPath": format!("/{}", volume["name"])}))
        .collect();
    json!({
        "metadata": {
            "name": name, "uid": format!("uid-{name}"), "namespace": "demo",
            "creationTimestamp": format!("2026-01-01T00:{minute:02}:00Z"),
            "ownerReferences": [{"kind": "Owner", "name": "web", "uid": "uid-web", "controller": true}],
        },
        "spec": {"nodeName": node, "volumes": volumes, "containers": [{"name": "app", "volumeMounts": mounts}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// The volume `data` with claim `data`.
pub(super) fn data() -> Value {
    json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
}

/// A claim with an access mode, bound to a volume of driver `csi.example`.
pub(super) fn claim(name: &str, mode: &str) -> (String, ClaimOf) {
    let claim = json!({
        "metadata": {"name": name, "namespace": "demo"},
        "spec": {"accessModes": [mode], "volumeName": format!("pv-{name}")},
        "status": {"phase": "Bound"},
    });
    let volume = json!({
        "metadata": {"name": format!("pv-{name}")},
        "spec": {"csi": {"driver": "csi.example", "volumeHandle": format!("handle-{name}")}},
    });
    (name.to_owned(), ClaimOf { claim, volume: Some(volume) })
}

/// A workload `web` with these volumes in its template.
#[allow(clippy::needless_pass_by_value, reason = "tables give JSON literals")]
pub(super) fn workload(replicas: u32, volumes: Value) -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "demo", "uid": "uid-web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {"volumes": volumes}}},
    })
}

/// A StatefulSet `web` with claim template `data`.
pub(super) fn stateful_set(replicas: u32) -> Value {
    let mut object = workload(replicas, json!([]));
    object["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": {"name": "data", "labels": {"tier": "db"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }]);
    object
}

/// The pod of an ordinal of that StatefulSet.
pub(super) fn stateful_pod(ordinal: u32, node: &str) -> Value {
    let volumes =
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": format!("data-web-{ordinal}")}}]);
    pod(&format!("web-{ordinal}"), node, 0, volumes)
}

pub(super) fn facts(
    kind: TargetKind,
    object: Value,
    pods: Vec<Value>,
    claims: &[(String, ClaimOf)],
) -> TargetFacts {
    TargetFacts {
        kind,
        name: "web".into(),
        namespace: "demo".into(),
        object: Some(object),
        between: Vec::new(),
        pods,
        claims: claims.iter().cloned().collect(),
        nodes: Vec::new(),
        site: Site { kubelet_root: "/var/lib/kubelet".into(), node_access: true, ..Site::default() },
    }
}

/// The access of the only volume of a host.
pub(super) fn access(host: &Host) -> VolumeAccess {
    match host.source.as_ref().map(|source| source.volumes.as_slice()) {
        Ok([volume]) => volume.access.clone(),
        other => panic!("{other:?}"),
    }
}
