//! Files that the box's programs create at fixed paths outside its directory. They are recognised by what they point to
//! and removed by `down`; a directory is removed if it is empty and did not exist before.
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::layout::{NODES, S3_FILER_GRPC, S3_GRPC, S3_MASTER_GRPC, S3_VOLUME_GRPC, STATE};

/// Directories that containerd, the CNI plugins and the kubelet create; a parent follows its children.
const DIRECTORIES: [&str; 10] = [
    "/run/containerd/s",
    "/run/containerd",
    "/var/lib/cni/results",
    "/var/lib/cni",
    "/var/log/containers",
    "/var/lib/kubelet/device-plugins",
    "/var/lib/kubelet",
    "/var/log/pods",
    "/opt/containerd",
    "/run/netns",
];

/// The directories that do not exist now: `down` may remove exactly these.
pub(super) fn absent() -> Vec<PathBuf> {
    DIRECTORIES.iter().map(PathBuf::from).filter(|path| !path.exists()).collect()
}

/// The directories that may be removed if the record is lost: all, because only empty ones are removed; but not the
/// kubelet's if they contain more than the box's kubelets leave.
pub(super) fn guess() -> Vec<PathBuf> {
    let kubelet = Path::new("/var/lib/kubelet");
    let foreign = entries(kubelet).iter().any(|path| !path.ends_with("device-plugins"));
    DIRECTORIES.iter().map(PathBuf::from).filter(|path| !(foreign && path.starts_with(kubelet))).collect()
}

/// Removes the box's files from those directories. Call it while the state directory still exists, because it names
/// them.
pub(super) fn remove(created: &[PathBuf]) -> Result<()> {
    for socket in shim_sockets() {
        let _ = fs::remove_file(socket);
    }
    // weed uses fixed paths for these; the port shows that they are ours.
    for (part, port) in
        [("master", S3_MASTER_GRPC), ("volume", S3_VOLUME_GRPC), ("filer", S3_FILER_GRPC), ("s3", S3_GRPC)]
    {
        let _ = fs::remove_file(format!("/tmp/seaweedfs-{part}-grpc-{}.sock", port.number));
    }
    for entry in entries("/var/log/containers") {
        if fs::read_link(&entry).is_ok_and(|target| target.starts_with(STATE)) {
            fs::remove_file(&entry)?;
        }
    }
    for entry in entries("/var/lib/cni/results") {
        // Each names its network namespace, and ours are in the state directory.
        if fs::read_to_string(&entry).is_ok_and(|text| text.contains(STATE)) {
            fs::remove_file(&entry)?;
        }
    }
    if created.iter().any(|path| path == Path::new("/var/lib/kubelet/device-plugins")) {
        for name in ["kubelet.sock", "kubelet_internal_checkpoint", "DEPRECATION"] {
            let _ = fs::remove_file(Path::new("/var/lib/kubelet/device-plugins").join(name));
        }
    }
    for path in created {
        let _ = fs::remove_dir(path); // refuses when another program has put something there
    }
    Ok(())
}

/// Each shim of our container runtimes has recorded the address of its socket.
fn shim_sockets() -> Vec<PathBuf> {
    NODES
        .iter()
        .flat_map(|node| entries(node.path("run/io.containerd.runtime.v2.task/k8s.io")))
        .filter_map(|bundle| fs::read_to_string(bundle.join("address")).ok())
        .filter_map(|address| Some(PathBuf::from(address.trim().strip_prefix("unix://")?)))
        .collect()
}

fn entries(dir: impl AsRef<Path>) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
