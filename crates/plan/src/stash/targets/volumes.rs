//! How a volume is reached: by its claim, by a CSI snapshot of it, or through the directory of a pod on its node.

use serde_json::Value;

use crate::transfer::directory::DirectoryError;

/// Why a volume cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumeError {
    #[error("target.volumeMounts names volume {volume:?}, which {of} does not have; its volumes are {available}")]
    NoVolume { volume: String, of: String, available: String },
    #[error("volume {volume:?} is a {kind} volume, which has no data of its own to back up; remove it from target.volumeMounts")]
    Kind { volume: String, kind: String },
    #[error("PersistentVolumeClaim {claim} of volume {volume:?} does not exist")]
    NoClaim { volume: String, claim: String },
    #[error("PersistentVolumeClaim {claim} of volume {volume:?} is not bound to a volume (phase {phase})")]
    NotBound { volume: String, claim: String, phase: String },
    #[error("volume {volume:?} is a {kind} volume, which exists only with a pod, and there is none")]
    NoPod { volume: String, kind: String },
    #[error(
        "volume {volume:?} ({kind}) can only be reached through the directory of its node, and access to nodes is off; turn it on with \
         `lifeboat install --node-access`, or the chart's value nodeAccess"
    )]
    NodeAccess { volume: String, kind: String },
    #[error("volume {volume:?} is a hostPath volume, and its namespace does not admit pods with such volumes: {refusal}")]
    HostPath { volume: String, refusal: String },
    #[error("no container of pod {pod} mounts volume {volume:?}, so its node has no directory of it")]
    NotMounted { volume: String, pod: String },
    #[error(
        "volume {volume:?} is a block volume that only its pod may use (ReadWriteOncePod); set target.snapshotClassName to read it from \
         a CSI snapshot"
    )]
    BlockOncePod { volume: String },
    #[error("VolumeSnapshotClass {class:?} (target.snapshotClassName) does not exist")]
    NoClass { class: String },
    #[error(
        "volume {volume:?}: claim {claim} is of driver {found}, and VolumeSnapshotClass {class:?} (target.snapshotClassName) is of driver \
         {expected}; name a class of that driver, or remove the field"
    )]
    Driver { volume: String, claim: String, found: String, class: String, expected: String },
    #[error("PersistentVolumeClaim {claim} of volume {volume:?} can only be read (ReadOnlyMany), so nothing can be restored into it")]
    ReadOnly { volume: String, claim: String },
    #[error(transparent)]
    Directory(DirectoryError),
}

/// Why a namespace admits no pods with hostPath volumes, by its labels; None if it admits them.
pub fn host_path_refusal(namespace: &Value) -> Option<String> {
    let _ = namespace;
    unimplemented!()
}
