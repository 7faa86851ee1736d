//! Where the mover of a host runs, what it mounts there, the paths of node directories inside the mover, and its
//! bandwidth limits.

use std::path::PathBuf;

use lifeboat_mover::task;
use lifeboat_plan::stash::session::Limits;
use lifeboat_plan::stash::targets::{HostVolume, MoverSource, VolumeAccess};
use lifeboat_plan::transfer::directory::{Directory, Proof};
use lifeboat_plan::transfer::movers::{DATA, MoverPlace, MoverVolume};
use lifeboat_transfer::attempts::Rates;

/// The volume's directory in the mover, and what proves that it is the right one.
pub(super) fn in_node_directory(directory: &Directory) -> (PathBuf, task::Proof) {
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

/// Whether a mover may write into what it mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writable {
    Yes,
    No,
}

/// Where the mover of a source runs, and what it mounts.
pub(super) fn place(source: &MoverSource, writable: Writable) -> MoverPlace {
    let writable = writable == Writable::Yes;
    match source {
        MoverSource::NodeDirectory { node, directory, .. } => {
            MoverPlace::NodeDirectory { node: node.clone(), directory: directory.mount.clone(), writable }
        }
        MoverSource::Volumes { volumes, node } => MoverPlace::Volumes {
            volumes: volumes.iter().map(|volume| mounted(volume, writable)).collect(),
            node: node.clone(),
        },
    }
}

fn mounted(volume: &HostVolume, writable: bool) -> MoverVolume {
    let (claim, block) = match &volume.access {
        VolumeAccess::Claim { claim, block, .. } | VolumeAccess::Snapshot { claim, block, .. } => {
            (claim, *block)
        }
        // Directories of nodes have movers of their own.
        VolumeAccess::NodeDirectory { .. } => (&volume.name, false),
    };
    MoverVolume { claim: claim.clone(), block, writable }
}

/// The limits that `args` of a target set. They apply to each mover separately.
pub(super) fn rates(limits: Limits) -> Rates {
    Rates { upload: limits.upload, download: limits.download }
}
