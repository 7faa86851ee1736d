//! CSI snapshots, through the objects of snapshot.storage.k8s.io: the class for a snapshot, the objects for a
//! snapshot, its content and a restored claim, the state of a snapshot. Takes objects; gives objects and decisions.
//! Called by the actions in crate `velero` that have upstream's names, and by backups and restores.

mod class;
mod deletion;
mod group;
mod restored;
mod taken;

use lifeboat_api::common::{BackupUid, LocationName, NamespaceName};
use sha2::{Digest, Sha256};

use crate::json::text;
use crate::label;

pub use class::{ClassError, classes_of, of_claim, of_group};
pub use deletion::{
    Orphan, content_of_handle, for_deletion, is_of_backup, is_own_content, orphan, restored_from,
};
pub use group::{
    GROUP_SNAPSHOTS, GroupError, GroupState, Member, MemberSnapshot, VolumeGroup, group_content,
    group_handle, group_state, is_of_group,
};
pub use restored::{
    NotRestorable, claim as restored_claim, content as restored_content, snapshot as restored_snapshot,
};
pub use taken::{backups_of, content_patch, restore_size, snapshot, snapshot_notes};

/// The actions, with upstream's names.
pub const CLAIM_BACKUPPER: &str = "velero.io/csi-pvc-backupper";
pub const SNAPSHOT_BACKUPPER: &str = "velero.io/csi-volumesnapshot-backupper";
pub const CONTENT_BACKUPPER: &str = "velero.io/csi-volumesnapshotcontent-backupper";
pub const CLASS_BACKUPPER: &str = "velero.io/csi-volumesnapshotclass-backupper";
pub const CLAIM_RESTORER: &str = "velero.io/csi-pvc-restorer";
pub const SNAPSHOT_RESTORER: &str = "velero.io/csi-volumesnapshot-restorer";
pub const CONTENT_RESTORER: &str = "velero.io/csi-volumesnapshotcontent-restorer";
pub const CLASS_RESTORER: &str = "velero.io/csi-volumesnapshotclass-restorer";
pub const CONTENT_DELETER: &str = "velero.io/csi-volumesnapshotcontent-delete";

/// Annotation and label of a claim in a backup: the VolumeSnapshot with its data.
pub const SNAPSHOT_NAME: &str = "velero.io/volume-snapshot-name";
/// Annotations of a VolumeSnapshot in a backup.
pub const HANDLE: &str = "velero.io/csi-volumesnapshot-handle";
pub const RESTORE_SIZE: &str = "velero.io/csi-volumesnapshot-restore-size";
pub const DRIVER: &str = "velero.io/csi-driver-name";
pub const DELETION_POLICY: &str = "velero.io/csi-vsc-deletion-policy";
pub const GROUP_HANDLE: &str = "velero.io/csi-volumegroupsnapshot-handle";
/// Annotation that restore item actions set: filters do not apply to their additional items.
pub const MUST_RESTORE: &str = "restore.velero.io/must-include-additional-items";

/// Label of snapshots and contents of a running backup: its UID. Restored ones do not have it.
pub const OF_BACKUP: &str = "lifeboat.io/backup-uid";

/// Label of objects that a controller created for a group snapshot of a backup: the backup's UID. They refer to the
/// same snapshots as the backup's own objects, and are deleted without deleting the snapshots.
pub const OF_GROUP: &str = "lifeboat.io/volume-group-of";

/// Label: the storage location of the backup, where it is looked up when its object is gone.
pub const LOCATION: &str = "velero.io/storage-location";

/// The backup that takes a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfBackup {
    pub name: String,
    pub uid: BackupUid,
    /// Its storage location.
    pub location: LocationName,
    /// Its namespace, which is that of its server.
    pub namespace: NamespaceName,
}

/// The name of the VolumeSnapshot that a backup takes of a claim. It is the same in every attempt, so that no
/// snapshot is taken twice.
pub fn snapshot_name(claim: &str, claim_uid: &str, backup_uid: &BackupUid) -> String {
    // At most as long as a label value, because claims in backups have it as one.
    const ROOM: usize = 63 - "velero-".len() - 1 - 16;
    let end = (0..=claim.len().min(ROOM)).rev().find(|at| claim.is_char_boundary(*at)).unwrap_or(0);
    let begin = claim[..end].trim_end_matches(['-', '.']);
    let digest = label::digest(&format!("{backup_uid}/{claim_uid}"));
    format!("velero-{begin}-{}", &digest[..16])
}

/// The name of a restored VolumeSnapshot and of its content: upstream's.
pub fn restored_name(restore_uid: &str, snapshot: &str) -> String {
    let digest = Sha256::digest(format!("{restore_uid}/{snapshot}").as_bytes());
    digest.iter().fold(String::new(), |all, byte| format!("{all}{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_has_one_name_for_each_claim_and_backup() {
        let (backup, other) = (&BackupUid::new("backup"), &BackupUid::new("other"));
        let name = snapshot_name("data-db-0", "claim", backup);
        assert_eq!(name, snapshot_name("data-db-0", "claim", backup));
        assert_ne!(name, snapshot_name("data-db-0", "claim", other));
        assert_ne!(name, snapshot_name("data-db-0", "other", backup));
        assert!(name.starts_with("velero-data-db-0-"), "{name}");
        assert!(snapshot_name(&"x".repeat(253), "claim", backup).len() <= 63);
    }

    #[test]
    fn restored_names_are_upstreams() {
        // printf %s r/s | sha256sum
        assert_eq!(
            restored_name("r", "s"),
            "95cb63649db25c54f7e2736d5b15ecc5e285d61c80f42c9d74ec14fb7a6c4ae2"
        );
    }
}
