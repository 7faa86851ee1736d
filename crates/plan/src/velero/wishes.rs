//! What a Backup asks for about the data of volumes: its spec, its volume policies and the annotations of pods. Read where
//! a pod's volumes are chosen ([`crate::velero::pod_volumes`]) and where their data is recorded ([`crate::velero::backup::volumes`]).

use lifeboat_api::velero::{BackupSpec, names};
use serde_json::Value;

use crate::policy::{Policies, VolumeAction, VolumeFacts};

/// Sources that are part of the pod or of the node and never copied.
const NEVER_COPIED: [&str; 5] = ["hostPath", "secret", "configMap", "projected", "downwardAPI"];

/// What the spec says about all volumes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wishes<'a> {
    pub copy_files: bool,
    pub snapshot: Option<bool>,
    pub move_data: bool,
    pub policies: Option<&'a Policies>,
}

impl<'a> Wishes<'a> {
    pub fn new(spec: &BackupSpec, policies: Option<&'a Policies>) -> Self {
        Self {
            copy_files: spec.default_volumes_to_fs_backup == Some(true),
            snapshot: spec.snapshot_volumes,
            move_data: spec.snapshot_move_data == Some(true),
            policies,
        }
    }
}

/// Why the files of a pod's volume are to be copied; None where they are not. `opted_in`, `opted_out`: what the pod's
/// annotations say.
pub(crate) fn copy_reason(
    facts: &VolumeFacts,
    opted_in: bool,
    opted_out: bool,
    wishes: &Wishes<'_>,
) -> Option<String> {
    match wishes.policies.and_then(|policies| policies.action(facts)) {
        Some(VolumeAction::FsBackup) => return Some("a volume policy asks for fs-backup".to_owned()),
        Some(_) => return None,
        None => {}
    }
    if wishes.copy_files {
        return (!opted_out).then(|| "defaultVolumesToFsBackup is true".to_owned());
    }
    opted_in.then(|| format!("the pod's annotation {} names it", names::BACKUP_VOLUMES))
}

/// The kind of a pod's volume that is never copied.
pub(crate) fn is_never_copied(volume: &Value) -> Option<&'static str> {
    NEVER_COPIED.into_iter().find(|source| volume.get(source).is_some())
}
