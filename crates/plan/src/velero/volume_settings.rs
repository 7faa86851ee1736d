//! A Backup's settings for the data of volumes: its spec and its volume policies. Used where a pod's volumes are
//! chosen ([`crate::velero::pod_volumes`]) and where their data is recorded ([`crate::velero::backup::volumes`]).

use lifeboat_api::velero::{BackupSpec, names};
use serde_json::Value;

use crate::policy::{Policies, VolumeAction, VolumeFacts};

/// Volume sources that are part of the pod or of the node and never copied.
const NEVER_COPIED: [&str; 5] = ["hostPath", "secret", "configMap", "projected", "downwardAPI"];

/// The settings of the spec for all volumes.
#[derive(Clone, Copy, Debug, Default)]
pub struct VolumeSettings<'a> {
    pub copy_files: bool,
    pub snapshot: Option<bool>,
    pub move_data: bool,
    pub policies: Option<&'a Policies>,
}

impl<'a> VolumeSettings<'a> {
    pub fn new(spec: &BackupSpec, policies: Option<&'a Policies>) -> Self {
        Self {
            copy_files: spec.default_volumes_to_fs_backup == Some(true),
            snapshot: spec.snapshot_volumes,
            move_data: spec.snapshot_move_data == Some(true),
            policies,
        }
    }
}

/// Why the files of a pod's volume are copied; None if they are not. `opted_in`, `opted_out`: whether the pod's
/// annotations list it.
pub(crate) fn copy_reason(
    facts: &VolumeFacts,
    opted_in: bool,
    opted_out: bool,
    settings: &VolumeSettings<'_>,
) -> Option<String> {
    match settings.policies.and_then(|policies| policies.action(facts)) {
        Some(VolumeAction::FsBackup) => return Some("a volume policy asks for fs-backup".to_owned()),
        Some(_) => return None,
        None => {}
    }
    if settings.copy_files {
        return (!opted_out).then(|| "defaultVolumesToFsBackup is true".to_owned());
    }
    opted_in.then(|| format!("the pod's annotation {} names it", names::BACKUP_VOLUMES))
}

/// The type of a pod's volume that is never copied.
pub(crate) fn is_never_copied(volume: &Value) -> Option<&'static str> {
    NEVER_COPIED.into_iter().find(|source| volume.get(source).is_some())
}
