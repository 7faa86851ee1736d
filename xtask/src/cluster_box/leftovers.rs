//! Files that the box's programs leave outside its directory, because their place is fixed: found by what they point
//! to, removed by `down`; a directory goes when it is empty and was not there before.
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::layout::{NODES, S3_FILER_GRPC, S3_GRPC, S3_MASTER_GRPC, S3_VOLUME_GRPC, STATE};

/// Directories that containerd, the CNI plugins and the kubelet create; a parent stands after its children.
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

/// Which of them are not there: `down` may remove exactly these.
pub(super) fn absent() -> Vec<PathBuf> {
    DIRECTORIES.iter().map(PathBuf::from).filter(|path| !path.exists()).collect()
}

/// Which of them may go when the record is lost: all, because only empty ones go; but the kubelet's not where more is in
/// them than the box's kubelets leave.
pub(super) fn guess() -> Vec<PathBuf> {
    let kubelet = Path::new("/var/lib/kubelet");
    let foreign = entries(kubelet).iter().any(|path| !path.ends_with("device-plugins"));
    DIRECTORIES.iter().map(PathBuf::from).filter(|path| !(foreign && path.starts_with(kubelet))).collect()
}

/// Removes the box's files from those directories. Call it while the state directory still exists: it names them.
pub(super) fn remove(created: &[PathBuf]) -> Result<()> {
    for socket in shim_sockets() {
        let _ = fs::remove_file(socket);
    }
    // weed takes no other place for these; the port makes them ours.
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
        // Each names the network namespace it was made for, and ours lie in the state directory.
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

/// Each shim of our runtimes has written down the address of its socket.
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
