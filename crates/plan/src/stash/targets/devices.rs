//! Block volumes in restores: only the whole content of a device can be restored into a device. Takes the plan and
//! the chosen snapshots; gives the mismatches, before a workload is stopped. The mover checks whether the device is
//! large enough, and writes nothing if it is not.

use super::{CleanPath, RestorePlan, VolumeAccess};
use crate::stash::hosts::HostName;
use crate::stash::rules::{RestorePart, Selection, StoredData};

/// Why data cannot be written into the volume that its path belongs to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    #[error(
        "host {host}: {path} is the content of a block volume, and volume {volume:?} has a file system; restore it into a claim with \
         volumeMode Block"
    )]
    NoDevice { host: HostName, path: CleanPath, volume: String },
    #[error(
        "host {host}: {path} has files, and volume {volume:?} is a block volume; restore it into a claim with a file system"
    )]
    NoFiles { host: HostName, path: CleanPath, volume: String },
    #[error(
        "host {host}: {path} is inside of volume {volume:?}, which is a block volume and is restored as a whole; name the path of its mount"
    )]
    Inside { host: HostName, path: CleanPath, volume: String },
    #[error(
        "host {host}: include and exclude choose files, and volume {volume:?} is a block volume, which is restored as a whole; remove them \
         from its rule"
    )]
    Patterns { host: HostName, volume: String },
}

/// What does not fit, for the hosts that get data.
pub fn device_errors(plan: &RestorePlan, selection: &Selection) -> Vec<DeviceError> {
    let mut errors = Vec::new();
    for host in &selection.hosts {
        let known = plan.hosts.iter().find(|known| known.name == host.name);
        let Some(Ok(destination)) = known.map(|known| &known.destination) else { continue };
        for part in host.parts.as_deref().unwrap_or_default() {
            let target = part.target.as_ref();
            let volume = target
                .and_then(|target| destination.volumes.iter().find(|volume| volume.name == target.volume));
            let is_block = volume.is_some_and(|volume| VolumeAccess::is_block(&volume.access));
            errors.extend(error_of(&host.name, part, is_block));
        }
    }
    errors
}

fn error_of(host: &HostName, part: &RestorePart, is_block: bool) -> Option<DeviceError> {
    let target = part.target.as_ref()?;
    let (host, path, volume) = (host.clone(), part.path.clone(), target.volume.clone());
    match (is_block, part.data) {
        (false, StoredData::Device) => Some(DeviceError::NoDevice { host, path, volume }),
        (true, StoredData::Files) => Some(DeviceError::NoFiles { host, path, volume }),
        (true, _) if target.sub_path.is_some() => Some(DeviceError::Inside { host, path, volume }),
        (true, _) if !part.include.is_empty() || !part.exclude.is_empty() => {
            Some(DeviceError::Patterns { host, volume })
        }
        _ => None,
    }
}
