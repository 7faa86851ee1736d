//! Directories of nodes, as a mover sees them.

use std::path::PathBuf;

use lifeboat_mover::task;
use lifeboat_plan::transfer::directory::{Directory, Proof};
use lifeboat_plan::transfer::movers::DATA;

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
