//! Forgets the snapshots with a backup's pod volumes and moved data of CSI snapshots, before its files are deleted,
//! because the files list them. Snapshots that cannot be forgotten are named, and then the backup is kept. The next
//! maintenance of the repository frees the space.

use std::collections::{BTreeMap, BTreeSet};

use lifeboat_api::common::{LocationName, NamespaceName};
use lifeboat_archive::BackupFiles;
use lifeboat_archive::documents::BackupVolumeInfo;
use serde::Deserialize;

use super::files::list;
use super::owned::Owner;
use super::snapshots::SnapshotsDeleted;
use crate::context::Context;
use crate::locations::Location;
use crate::repositories::{self, Forgotten};

/// The copies that a backup lists.
#[derive(Default)]
pub(super) struct Copies {
    /// Why the backup must be kept, for people.
    pub(super) problems: Vec<String>,
    /// Snapshots, by the namespace of their repository.
    by_namespace: BTreeMap<String, BTreeSet<String>>,
}

/// What a deletion needs of a PodVolumeBackup in a list.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Copied {
    spec: CopiedSpec,
    status: CopiedStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CopiedSpec {
    pod: CopiedPod,
    volume: String,
    uploader_type: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CopiedPod {
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CopiedStatus {
    #[serde(rename = "snapshotID")]
    snapshot_id: Option<String>,
}

/// Reads Lifeboat's list and Velero's. `volumes`: the list of volumes.
pub(super) async fn read(location: &Location, backup: &str, volumes: &[BackupVolumeInfo]) -> Copies {
    let mut copies = Copies::default();
    let Ok(files) = BackupFiles::new(backup) else { return copies };
    for key in [files.volume_copies(), files.pod_volume_backups()] {
        match list::<Option<Copied>>(location, &key).await {
            Ok(listed) => listed.iter().flatten().for_each(|copy| copies.add(copy)),
            Err(error) => copies.problems.push(error.to_string()),
        }
    }
    for volume in volumes {
        copies.add_moved(volume);
    }
    copies
}

impl Copies {
    /// Whether there is a copy to forget.
    pub(super) fn is_empty(&self) -> bool {
        self.by_namespace.is_empty()
    }

    fn add(&mut self, copy: &Copied) {
        let CopiedSpec { pod: CopiedPod { namespace, name }, volume, uploader_type } = &copy.spec;
        let snapshot = copy.status.snapshot_id.as_deref().unwrap_or_default();
        if snapshot.is_empty() {
            return;
        }
        if let Some(uploader) = uploader_type.as_deref().filter(|one| !matches!(*one, "" | "restic")) {
            self.problems.push(format!(
                "the data of volume '{volume}' of pod '{namespace}/{name}' remains: it is in a {uploader} repository, \
                 which only Velero reads; delete this backup with Velero"
            ));
            return;
        }
        self.by_namespace.entry(namespace.to_owned()).or_default().insert(snapshot.to_owned());
    }

    /// Adds a CSI snapshot whose data was moved into a repository.
    fn add_moved(&mut self, volume: &BackupVolumeInfo) {
        let Some(moved) = volume.snapshot_data_movement_info.as_ref().filter(|_| volume.snapshot_data_moved)
        else {
            return;
        };
        if moved.snapshot_handle.is_empty() {
            return;
        }
        let BackupVolumeInfo { pvc_namespace, pvc_name, .. } = volume;
        if moved.uploader_type != "restic" {
            self.problems.push(format!(
                "the data of claim '{pvc_namespace}/{pvc_name}' remains: data mover '{}' put it into a {} repository; delete this \
                 backup with Velero",
                moved.data_mover, moved.uploader_type
            ));
            return;
        }
        self.by_namespace.entry(pvc_namespace.clone()).or_default().insert(moved.snapshot_handle.clone());
    }

    /// Forgets the snapshots whose tags name the backup, one repository after the other.
    pub(super) async fn forget(
        &self,
        context: &Context,
        location: &Location,
        owner: &Owner,
    ) -> SnapshotsDeleted {
        let mut gone = SnapshotsDeleted::default();
        for (namespace, snapshots) in &self.by_namespace {
            let ids: Vec<String> = snapshots.iter().cloned().collect();
            let key = repositories::key(&LocationName::new(&location.name), &NamespaceName::new(namespace));
            match repositories::forget_owned(context, &key, &ids, &|tags| owner.owns_tags(tags)).await {
                Ok(Forgotten { removed, foreign }) => {
                    gone.any |= removed > 0;
                    gone.left.extend(foreign.iter().map(|id| {
                        format!(
                            "snapshot {id} in the repository of namespace '{namespace}' is left: its tags do not name \
                             this backup"
                        )
                    }));
                }
                Err(problem) => gone.problems.push(format!(
                    "{} copies of volumes of namespace '{namespace}' remain in their repository: {}",
                    ids.len(),
                    problem.chain()
                )),
            }
        }
        gone
    }
}
