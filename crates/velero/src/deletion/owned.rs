//! What a backup made, as far as something other than its bucket proves it: proofs that only this
//! installation can make, the tags of snapshots in repositories, and labels of objects in the cluster.
//! Everything else that the lists of a backup name is not deleted, and is reported: a user with write access
//! to the bucket could have written anything into them.

use std::collections::BTreeSet;

use kube::ResourceExt;
use lifeboat_api::velero::names;
use lifeboat_archive::BackupFiles;
use lifeboat_archive::documents::{BackupVolumeInfo, CsiSnapshotInfo, List, NativeSnapshot};
use lifeboat_cluster::ApiError;
use lifeboat_plan::label;
use lifeboat_plan::velero::csi::is_own_content;
use lifeboat_plan::velero::deletion::Stored;
use lifeboat_plan::velero::ownership::{Owned, OwnerId, OwnershipKeys};

use super::files::list;
use super::gather::Gathered;
use crate::context::Context;
use crate::csi;
use crate::locations::Location;
use crate::ownership;

/// The lists of a backup, and what of them is its own.
#[derive(Default)]
pub(super) struct Owner {
    pub(super) name: String,
    /// The UID of the object, and the one that it had in the cluster that made the backup.
    uids: BTreeSet<String>,
    keys: OwnershipKeys,
    pub(super) volumes: List<BackupVolumeInfo>,
    pub(super) natives: List<NativeSnapshot>,
    /// Driver and handle of the CSI snapshots that are the backup's.
    csi: BTreeSet<(String, String)>,
}

impl Owner {
    /// Reads the lists; an error is a reason to keep the backup.
    pub(super) async fn read(
        context: &Context,
        gathered: &Gathered,
        location: &Location,
    ) -> Result<Self, Vec<String>> {
        let files = BackupFiles::new(&gathered.name).map_err(|error| vec![error.to_string()])?;
        let mut uids: BTreeSet<String> = gathered.backup.iter().filter_map(ResourceExt::uid).collect();
        if let Stored::Found { uid, .. } = &gathered.stored {
            uids.insert(uid.clone());
        }
        uids.remove("");
        let said = |error: ApiError| vec![error.chain()];
        let keys = ownership::keys(context).await.map_err(said)?;
        let volumes = list(location, &files.volume_info()).await.map_err(|error| vec![error.to_string()])?;
        let natives = list(location, &files.volume_snapshots()).await;
        let natives = natives.map_err(|error| vec![error.to_string()])?;
        let mut owner =
            Self { name: gathered.name.clone(), uids, keys, volumes, natives, csi: BTreeSet::new() };
        owner.csi = owner.proven_csi();
        owner.csi.extend(owner.labelled_csi(context).await.map_err(said)?);
        Ok(owner)
    }

    fn proves(&self, proof: &str, owned: Owned<'_>) -> bool {
        let owns = |uid: &String| self.keys.proves(proof, OwnerId { backup: &self.name, uid }, owned);
        self.uids.iter().any(owns)
    }

    fn proven_csi(&self) -> BTreeSet<(String, String)> {
        let listed = self.volumes.iter().filter_map(|volume| volume.csi_snapshot_info.as_ref());
        let proven = listed.filter(|csi| {
            self.proves(&csi.proof, Owned::Csi { driver: &csi.driver, handle: &csi.snapshot_handle })
        });
        proven.map(|csi| (csi.driver.clone(), csi.snapshot_handle.clone())).collect()
    }

    /// The snapshots of contents that backups left in the cluster, as Velero labels them.
    async fn labelled_csi(&self, context: &Context) -> Result<BTreeSet<(String, String)>, ApiError> {
        let snapshots = csi::Snapshots::new(&context.client);
        if self.volumes.iter().all(|volume| volume.csi_snapshot_info.is_none())
            || snapshots.usable().await.is_err()
        {
            return Ok(BTreeSet::new());
        }
        let label = label::value(&self.name);
        let contents = snapshots.labelled_contents(names::BACKUP_NAME, Some(&label)).await?;
        Ok(contents.iter().filter_map(|content| is_own_content(content, &self.name)).collect())
    }

    /// Whether a CSI snapshot is the backup's.
    pub(super) fn owns_csi(&self, driver: &str, handle: &str) -> bool {
        self.csi.contains(&(driver.to_owned(), handle.to_owned()))
    }

    /// Whether a plugin snapshot is the backup's.
    pub(super) fn owns_native(&self, one: &NativeSnapshot) -> bool {
        let owned = Owned::Native { location: &one.spec.location, id: &one.status.provider_snapshot_id };
        self.proves(&one.status.proof, owned)
    }

    /// Whether tags of a snapshot in a repository name the backup. Only who has the repository's password can write
    /// them.
    pub(super) fn owns_tags(&self, tags: &[String]) -> bool {
        let has = |key: &str, value: &str| tags.iter().any(|tag| tag.split_once('=') == Some((key, value)));
        has("backup", &self.name) && self.uids.iter().any(|uid| has("backup-uid", uid))
    }

    /// Whether there is a snapshot of a driver or of a plugin to delete.
    pub(super) fn has_snapshots(&self) -> bool {
        !self.csi.is_empty() || self.natives.iter().any(|one| self.owns_native(one))
    }

    /// Messages about the listed snapshots of drivers and plugins that nothing proves.
    pub(super) fn unproven(&self) -> Vec<String> {
        let mut left = Vec::new();
        for volume in self.volumes.iter().filter(|volume| !volume.skipped && volume.result != "failed") {
            let Some(CsiSnapshotInfo { snapshot_handle, driver, .. }) = &volume.csi_snapshot_info else {
                continue;
            };
            // The data of such a snapshot is in a repository, and the snapshot itself was deleted.
            if volume.snapshot_data_moved
                || snapshot_handle.is_empty()
                || self.owns_csi(driver, snapshot_handle)
            {
                continue;
            }
            left.push(format!(
                "the CSI snapshot '{snapshot_handle}' of driver {driver} of claim '{}/{}' is left: {NOT_PROVEN}",
                volume.pvc_namespace, volume.pvc_name
            ));
        }
        let made = self.natives.iter().filter(|one| !one.status.provider_snapshot_id.is_empty());
        for one in made.filter(|one| !self.owns_native(one)) {
            left.push(format!(
                "snapshot '{}' of volume '{}' in location '{}' is left: {NOT_PROVEN}",
                one.status.provider_snapshot_id, one.spec.persistent_volume_name, one.spec.location
            ));
        }
        left
    }
}

/// Why something is left.
pub(super) const NOT_PROVEN: &str =
    "only the bucket says that this backup made it; delete it with the tools of its storage if it did";
