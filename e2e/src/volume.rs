//! A volume that is a directory of this machine: for tests of plugins that snapshot directories.

use crate::{get, wait_for};

/// A volume that is a directory of the machine, and the claim `data` that has it.
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

/// Waits until the claim `data` has a volume; gives its name.
pub fn bound(namespace: &str) -> String {
    wait_for("a bound claim", 60, || {
        let claim = get(&["-n", namespace, "pvc", "data"]);
        match (claim["status"]["phase"].as_str(), claim["spec"]["volumeName"].as_str()) {
            (Some("Bound"), Some(volume)) => Ok(volume.to_owned()),
            _ => Err(claim["status"].to_string()),
        }
    })
}
