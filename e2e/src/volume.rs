//! Volumes and classes that tests create: a volume that is a directory of this machine, for tests of plugins that
//! snapshot directories; a snapshot class whose snapshots always fail.

use crate::{apply, get, kubectl, unique, wait_for};

/// A volume that is a directory of the machine, and the claim `data` bound to it.
pub fn directory_volume(name: &str, namespace: &str, path: &str) -> String {
    format!(
        "apiVersion: v1
kind: PersistentVolume
metadata: {{name: {name}}}
spec:
  capacity: {{storage: 1Gi}}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: ''
  claimRef: {{namespace: {namespace}, name: data}}
  hostPath: {{path: {path}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data, namespace: {namespace}}}
spec: {{accessModes: [ReadWriteOnce], storageClassName: '', volumeName: {name}, resources: {{requests: {{storage: 1Gi}}}}}}
"
    )
}

/// Waits until the claim `data` is bound; returns the volume's name.
pub fn bound(namespace: &str) -> String {
    wait_for("a bound claim", 60, || {
        let claim = get(&["-n", namespace, "pvc", "data"]);
        match (claim["status"]["phase"].as_str(), claim["spec"]["volumeName"].as_str()) {
            (Some("Bound"), Some(volume)) => Ok(volume.to_owned()),
            _ => Err(claim["status"].to_string()),
        }
    })
}

/// A snapshot class of the box's driver that refers to a missing Secret. Deleted when dropped.
pub struct BrokenSnapshotClass {
    pub name: String,
}

impl BrokenSnapshotClass {
    pub fn made() -> Self {
        let name = unique("broken");
        apply(&format!(
            "apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotClass
metadata: {{name: {name}}}
driver: hostpath.csi.k8s.io
deletionPolicy: Delete
parameters: {{csi.storage.k8s.io/snapshotter-secret-name: none, csi.storage.k8s.io/snapshotter-secret-namespace: none}}
"
        ));
        Self { name }
    }
}

impl Drop for BrokenSnapshotClass {
    fn drop(&mut self) {
        kubectl().args(["delete", "volumesnapshotclass", &self.name]).run();
    }
}
