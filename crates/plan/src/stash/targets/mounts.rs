//! Mounts of a target: which volume a path is on, and where in it. A path belongs to the mount with the longest `mountPath`
//! at or above it, as in a container.

use k8s_openapi::api::core::v1::VolumeMount;
use lifeboat_api::stash::{BackupTarget, RestoreTarget};

use super::paths::{CleanPath, PathError, joined, sub_path};
use super::{CLAIM_MOUNT, Note, TargetKind};

/// One entry of `target.volumeMounts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// A volume of the pod template; for a claim as target the claim.
    pub volume: String,
    pub mount_path: CleanPath,
    /// The directory of the volume that is mounted; None for its root.
    pub sub_path: Option<String>,
}

/// A path and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountedPath {
    pub path: CleanPath,
    pub volume: String,
    /// Below the root of the volume; None for all of it.
    pub sub_path: Option<String>,
}

/// The mounts of a target and the paths of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountPlan {
    pub mounts: Vec<Mount>,
    /// Of a backup: what is stored, each once. Of a restore: empty, because snapshots decide.
    pub paths: Vec<MountedPath>,
}

impl MountPlan {
    /// The mounts and paths of a backup. Without `paths`, one for each mount.
    pub fn of_backup(kind: TargetKind, target: &BackupTarget) -> Result<Self, PathError> {
        let mounts = mounts(kind, &target.reference.name, &target.volume_mounts)?;
        let mut plan = Self { mounts, paths: Vec::new() };
        let mut wanted = Vec::new();
        for path in &target.paths {
            wanted.push(CleanPath::new("target.paths", path)?);
        }
        if wanted.is_empty() {
            wanted = plan.mounts.iter().map(|mount| mount.mount_path.clone()).collect();
        }
        for path in wanted {
            if !plan.paths.iter().any(|known| known.path == path) {
                let found = plan.find(&path)?;
                plan.paths.push(found);
            }
        }
        Ok(plan)
    }

    /// The mounts of a restore into a workload or claim. `name`: that of the target.
    pub fn of_restore(kind: TargetKind, name: &str, target: &RestoreTarget) -> Result<Self, PathError> {
        Ok(Self { mounts: mounts(kind, name, &target.volume_mounts)?, paths: Vec::new() })
    }

    /// The mounts of a restore into claim templates.
    pub fn of_templates(target: &RestoreTarget) -> Result<Self, PathError> {
        Ok(Self { mounts: listed(&target.volume_mounts)?, paths: Vec::new() })
    }

    /// Where a path is.
    pub fn find(&self, path: &CleanPath) -> Result<MountedPath, PathError> {
        find_mount(&self.mounts, path).ok_or_else(|| {
            let mounts: Vec<&str> = self.mounts.iter().map(|mount| mount.mount_path.as_str()).collect();
            PathError::BelowNoMount { path: path.clone(), mounts: mounts.join(", ") }
        })
    }

    /// Mounts below a path that is on another volume: their files are not in that path's snapshot.
    pub(super) fn hidden(&self) -> Vec<Note> {
        let stored = |mount: &Mount| self.paths.iter().any(|path| mount.mount_path == path.path);
        let below = |path: &MountedPath, mount: &Mount| {
            mount.mount_path != path.path && mount.mount_path.is_within(&path.path)
        };
        let paths = self.paths.iter();
        let pairs = paths.flat_map(|path| self.mounts.iter().map(move |mount| (path, mount)));
        let hidden = pairs.filter(|(path, mount)| below(path, mount) && !stored(mount));
        let notes = hidden.map(|(path, mount)| Note::MountBelowPath {
            path: path.path.clone(),
            mount_path: mount.mount_path.clone(),
            volume: mount.volume.clone(),
        });
        notes.collect()
    }
}

/// Where a path is: on the mount with the longest path at or above it. None if it is below no mount.
pub fn find_mount(mounts: &[Mount], path: &CleanPath) -> Option<MountedPath> {
    let mount = mount_above(mounts, path)?;
    let sub_path = joined(mount.sub_path.as_deref(), path.below(&mount.mount_path)?);
    Some(MountedPath { path: path.clone(), volume: mount.volume.clone(), sub_path })
}

/// The mount with the longest path at or above a path.
pub fn mount_above<'a>(mounts: &'a [Mount], path: &CleanPath) -> Option<&'a Mount> {
    let above = mounts.iter().filter(|mount| path.is_within(&mount.mount_path));
    above.max_by_key(|mount| mount.mount_path.as_str().len())
}

/// The mounts of a target. A claim as target is one volume, whatever the entries call it, and has upstream's mount by default.
fn mounts(kind: TargetKind, name: &str, entries: &[VolumeMount]) -> Result<Vec<Mount>, PathError> {
    if kind != TargetKind::Claim {
        return listed(entries);
    }
    if entries.is_empty() {
        let mount_path = CleanPath::new("target.volumeMounts[].mountPath", CLAIM_MOUNT)?;
        return Ok(vec![Mount { volume: name.to_owned(), mount_path, sub_path: None }]);
    }
    let mut mounts = listed(entries)?;
    for mount in &mut mounts {
        name.clone_into(&mut mount.volume);
    }
    Ok(mounts)
}

fn listed(entries: &[VolumeMount]) -> Result<Vec<Mount>, PathError> {
    if entries.is_empty() {
        return Err(PathError::NoMounts);
    }
    let mut mounts: Vec<Mount> = Vec::new();
    for entry in entries {
        let mount = mount(entry)?;
        if let Some(same) = mounts.iter().find(|known| known.mount_path == mount.mount_path) {
            let (first, second) = (same.volume.clone(), mount.volume);
            return Err(PathError::SameMount { mount_path: mount.mount_path, first, second });
        }
        mounts.push(mount);
    }
    Ok(mounts)
}

fn mount(entry: &VolumeMount) -> Result<Mount, PathError> {
    let volume = entry.name.clone();
    if let Some(value) = entry.sub_path_expr.as_ref().filter(|value| !value.is_empty()) {
        return Err(PathError::SubPathExpr { volume, value: value.clone() });
    }
    let mount_path = CleanPath::new("target.volumeMounts[].mountPath", &entry.mount_path)?;
    let sub_path = sub_path(&volume, entry.sub_path.as_deref().unwrap_or_default())?;
    Ok(Mount { volume, mount_path, sub_path })
}
