//! The parts of a host, by mover: claims of the target's namespace are read by one mover there, each directory of a node by one in the
//! movers' namespace.

use super::{HostPart, HostVolume};
use crate::transfer::directory::Directory;

/// The parts that one mover carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoverParts<P = HostPart> {
    pub source: MoverSource,
    pub parts: Vec<P>,
}

/// What one mover mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoverSource {
    /// Claims and volumes made from snapshots, in the target's namespace.
    Volumes { volumes: Vec<HostVolume>, node: Option<String> },
    /// The directory of a volume on its node.
    NodeDirectory { volume: String, node: String, directory: Directory },
}
