//! The directory of a pod's volume on its node, by the kubelet's layout. A mover mounts the parent directory, so that
//! it notices when the volume is unmounted, and verifies that it has the right volume. The root directory of a node
//! is never mounted.

use serde_json::Value;

use super::text;

/// A claim of the pod's namespace, with its volume if it is bound.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaimOf {
    pub claim: Value,
    pub volume: Option<Value>,
}

/// The claim of a pod's volume: one that it references, or an ephemeral one that is created with the pod.
pub fn claim_of(pod: &str, volume: &Value) -> Option<String> {
    let named = text(volume, "/persistentVolumeClaim/claimName");
    if !named.is_empty() {
        return Some(named.to_owned());
    }
    volume.get("ephemeral").map(|_| format!("{pod}-{}", text(volume, "/name")))
}

/// Annotation of a node: the kubelet's directory on it.
pub const KUBELET_ROOT: &str = "lifeboat.io/kubelet-root";

/// The directory of a volume on its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// The host directory that is mounted.
    pub mount: String,
    /// The volume's path below `mount`; empty if the volume's own directory is mounted.
    pub path: String,
    pub proof: Proof,
}

impl Directory {
    /// The absolute path of the volume's own directory on its node.
    pub fn on_node(&self) -> String {
        if self.path.is_empty() { self.mount.clone() } else { format!("{}/{}", self.mount, self.path) }
    }
}

/// How the mover verifies that it has the right volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// `file`, below the mounted directory, names the driver and the volume.
    Csi {
        file: String,
        driver: String,
        handle: String,
    },
    MountPoint,
    /// A plain directory, identified by device and inode.
    Directory,
}

/// In-tree volume types that are mounted below a directory of their plugin.
const MOUNTED: [(&str, &str); 16] = [
    ("nfs", "kubernetes.io~nfs"),
    ("local", "kubernetes.io~local-volume"),
    ("iscsi", "kubernetes.io~iscsi"),
    ("fc", "kubernetes.io~fc"),
    ("rbd", "kubernetes.io~rbd"),
    ("cephfs", "kubernetes.io~cephfs"),
    ("glusterfs", "kubernetes.io~glusterfs"),
    ("awsElasticBlockStore", "kubernetes.io~aws-ebs"),
    ("gcePersistentDisk", "kubernetes.io~gce-pd"),
    ("azureDisk", "kubernetes.io~azure-disk"),
    ("azureFile", "kubernetes.io~azure-file"),
    ("cinder", "kubernetes.io~cinder"),
    ("vsphereVolume", "kubernetes.io~vsphere-volume"),
    ("portworxVolume", "kubernetes.io~portworx-volume"),
    ("quobyte", "kubernetes.io~quobyte"),
    ("scaleIO", "kubernetes.io~scaleio"),
];

/// Annotation of an in-tree volume that a CSI driver mounts.
const MIGRATED: &str = "pv.kubernetes.io/migrated-to";

/// Why the files of a volume cannot be found on a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirectoryError {
    #[error("volume {volume:?} of a pod with UID {uid:?} has no directory on a node")]
    BadPodVolume { volume: String, uid: String },
    #[error("claim {claim} is not bound to a volume")]
    NotBound { claim: String },
    #[error("volume {volume:?} has no directory on a node")]
    BadVolume { volume: String },
    #[error(
        "volume {volume} is a block volume, which has no files to copy; back it up by CSI snapshot, with snapshotMoveData to move its data"
    )]
    Block { volume: String },
    #[error("volume {volume}: {driver:?} is not the name of a FlexVolume driver")]
    FlexVolume { volume: String, driver: String },
    #[error("volume {volume} is of a kind whose files cannot be found on a node ({kinds})")]
    Kind { volume: String, kinds: String },
    #[error(
        "volume {volume} is the directory {path:?} of its node, which cannot be mounted: expected an absolute path below the root, without '.' and '..'"
    )]
    HostPath { volume: String, path: String },
}

/// The directory of a pod's volume. `root`: the kubelet's directory; `volume`: the entry in the pod's spec; `claim`:
/// its claim, if it has one.
pub fn directory(
    root: &str,
    pod: &Value,
    volume: &Value,
    claim: Option<&ClaimOf>,
) -> Result<Directory, DirectoryError> {
    let (name, uid) = (text(volume, "/name"), directory_uid(pod));
    if !is_plain(uid) || !is_plain(name) {
        return Err(DirectoryError::BadPodVolume { volume: name.to_owned(), uid: uid.to_owned() });
    }
    let volumes = format!("{}/pods/{uid}/volumes", root.trim_end_matches('/'));
    let Some(claim) = claim else { return of_source(&volumes, name, volume, name) };
    let Some(bound) = &claim.volume else {
        return Err(DirectoryError::NotBound { claim: text(&claim.claim, "/metadata/name").to_owned() });
    };
    let bound_name = text(bound, "/metadata/name");
    if !is_plain(bound_name) {
        return Err(DirectoryError::BadVolume { volume: bound_name.to_owned() });
    }
    if [&claim.claim, bound].iter().any(|object| text(object, "/spec/volumeMode") == "Block") {
        return Err(DirectoryError::Block { volume: bound_name.to_owned() });
    }
    if let Some(path) = bound.pointer("/spec/hostPath/path").and_then(Value::as_str) {
        return host_directory(bound_name, path);
    }
    let migrated = bound["metadata"]["annotations"][MIGRATED].as_str();
    if migrated.is_some_and(|driver| !driver.is_empty()) && bound["spec"].get("csi").is_none() {
        return Ok(csi(&volumes, bound_name, Proof::MountPoint));
    }
    of_source(&volumes, bound_name, &bound["spec"], name)
}

/// `name`: the kubelet's name for the directory; `title`: the volume's name in messages.
fn of_source(volumes: &str, name: &str, source: &Value, title: &str) -> Result<Directory, DirectoryError> {
    let below = |plugin: &str, proof: Proof| Directory {
        mount: format!("{volumes}/{plugin}"),
        path: name.to_owned(),
        proof,
    };
    if let Some(driver) = source.get("csi") {
        let (driver, handle) = (text(driver, "/driver"), text(driver, "/volumeHandle"));
        // The kubelet generates the handle of an inline volume.
        let proof = if handle.is_empty() {
            Proof::MountPoint
        } else {
            Proof::Csi {
                file: "vol_data.json".to_owned(),
                driver: driver.to_owned(),
                handle: handle.to_owned(),
            }
        };
        return Ok(csi(volumes, name, proof));
    }
    if let Some(empty) = source.get("emptyDir") {
        let proof = if text(empty, "/medium").is_empty() { Proof::Directory } else { Proof::MountPoint };
        return Ok(below("kubernetes.io~empty-dir", proof));
    }
    if source.get("gitRepo").is_some() {
        return Ok(below("kubernetes.io~git-repo", Proof::Directory));
    }
    if let Some(driver) = source.pointer("/flexVolume/driver").and_then(Value::as_str) {
        let plugin = driver.replace('/', "~");
        if !is_plain(&plugin) {
            return Err(DirectoryError::FlexVolume { volume: title.to_owned(), driver: driver.to_owned() });
        }
        return Ok(below(&plugin, Proof::MountPoint));
    }
    let known = MOUNTED.iter().find(|(kind, _)| source.get(kind).is_some());
    match known {
        Some((_, plugin)) => Ok(below(plugin, Proof::MountPoint)),
        None => Err(DirectoryError::Kind { volume: title.to_owned(), kinds: kinds(source) }),
    }
}

fn csi(volumes: &str, name: &str, proof: Proof) -> Directory {
    Directory { mount: format!("{volumes}/kubernetes.io~csi/{name}"), path: "mount".to_owned(), proof }
}

/// The directory of a volume that is a directory of the node. `name`: the volume's name in messages.
pub fn host_directory(name: &str, path: &str) -> Result<Directory, DirectoryError> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let usable = path.starts_with('/') && !parts.iter().any(|part| matches!(*part, "." | ".."));
    let (mount, path) = match parts.split_last() {
        // The parent directory would be the root with all files of the node. The directory itself is mounted instead,
        // and identified by device and inode.
        Some((last, [])) if usable => (format!("/{last}"), String::new()),
        Some((last, above)) if usable => (format!("/{}", above.join("/")), (*last).to_owned()),
        _ => {
            return Err(DirectoryError::HostPath { volume: name.to_owned(), path: path.to_owned() });
        }
    };
    Ok(Directory { mount, path, proof: Proof::Directory })
}

/// The UID in the path of the pod's directory: for a static pod it differs from the UID of its object.
fn directory_uid(pod: &Value) -> &str {
    let mirrored = pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].as_str();
    mirrored.unwrap_or_else(|| text(pod, "/metadata/uid"))
}

/// Whether a name is a single path component.
fn is_plain(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    !name.is_empty() && name != "." && name != ".." && name.bytes().all(letter)
}

fn kinds(source: &Value) -> String {
    let fields = source.as_object().into_iter().flatten().filter(|(_, value)| value.is_object());
    let kinds: Vec<_> = fields.map(|(field, _)| field.as_str()).collect();
    if kinds.is_empty() { "it names none".to_owned() } else { kinds.join(", ") }
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;
