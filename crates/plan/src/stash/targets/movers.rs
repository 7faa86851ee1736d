//! The parts of a host, by the mover that can carry them out: claims of the target's namespace are mounted by one mover there, the
//! directory of each other volume by a mover on its node, in the movers' namespace.

use super::{HostPart, HostSource, HostVolume, VolumeAccess};
use crate::transfer::directory::Directory;

/// The parts that one mover carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoverParts<P> {
    pub source: MoverSource,
    pub parts: Vec<P>,
}

/// What one mover mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoverSource {
    /// Claims of the target's namespace, and volumes made there from snapshots.
    Volumes {
        volumes: Vec<HostVolume>,
        /// The node that has one of the claims attached.
        node: Option<String>,
    },
    /// The directory of a volume on its node.
    NodeDirectory { volume: String, node: String, directory: Directory },
}

impl HostSource {
    /// The parts by mover, in the order of their first parts. Most hosts need one mover.
    pub fn movers(&self) -> Vec<MoverParts<HostPart>> {
        by_mover(&self.volumes, self.parts.clone(), |part| &part.volume)
    }
}

/// Sorts parts by mover. `volume`: the name of a part's volume; a part of a volume that is not listed is left out.
pub fn by_mover<P>(volumes: &[HostVolume], parts: Vec<P>, volume: impl Fn(&P) -> &str) -> Vec<MoverParts<P>> {
    let mut movers: Vec<MoverParts<P>> = Vec::new();
    for part in parts {
        let Some(of_part) = volumes.iter().find(|known| known.name == volume(&part)) else { continue };
        match movers.iter_mut().find(|mover| mover.source.fits(of_part)) {
            Some(mover) => {
                mover.source.add(of_part);
                mover.parts.push(part);
            }
            None => movers.push(MoverParts { source: MoverSource::of(of_part), parts: vec![part] }),
        }
    }
    movers
}

impl MoverSource {
    fn of(volume: &HostVolume) -> Self {
        match &volume.access {
            VolumeAccess::NodeDirectory { node, directory } => Self::NodeDirectory {
                volume: volume.name.clone(),
                node: node.clone(),
                directory: directory.clone(),
            },
            access => Self::Volumes { volumes: vec![volume.clone()], node: access.node().map(str::to_owned) },
        }
    }

    /// Whether the mover has this volume, or can mount it as well.
    fn fits(&self, volume: &HostVolume) -> bool {
        match (self, &volume.access) {
            (Self::NodeDirectory { volume: own, .. }, _) => *own == volume.name,
            (Self::Volumes { .. }, VolumeAccess::NodeDirectory { .. }) => false,
            (Self::Volumes { node, .. }, access) => match (node.as_deref(), access.node()) {
                (Some(own), Some(wanted)) => own == wanted,
                _ => true,
            },
        }
    }

    fn add(&mut self, volume: &HostVolume) {
        let Self::Volumes { volumes, node } = self else { return };
        if !volumes.contains(volume) {
            *node = node.take().or_else(|| volume.access.node().map(str::to_owned));
            volumes.push(volume.clone());
        }
    }
}

impl VolumeAccess {
    /// The node on which a mover has to run, if it is known.
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::Claim { node, .. } => node.as_deref(),
            Self::NodeDirectory { node, .. } => Some(node),
            Self::Snapshot { .. } => None,
        }
    }

    /// Whether it is a device.
    pub fn is_block(&self) -> bool {
        matches!(self, Self::Claim { block: true, .. } | Self::Snapshot { block: true, .. })
    }
}
