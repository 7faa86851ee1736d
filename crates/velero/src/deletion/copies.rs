//! Forgets the snapshots with a backup's pod volumes and moved data of CSI snapshots, before its files are deleted,
//! because the files list them. Snapshots that cannot be forgotten are named, and then the backup is kept. The next
//! maintenance of the repository frees the space.

use std::collections::{BTreeMap, BTreeSet};

use lifeboat_api::common::{LocationName, NamespaceName};
use lifeboat_archive::BackupFiles;
use lifeboat_archive::documents::BackupVolumeInfo;
use serde_json::Value;

use super::files::list;
use super::snapshots::SnapshotsDeleted;
use crate::context::Context;
use crate::locations::Location;
use crate::repositories;

/// The copies that a backup lists.
#[derive(Default)]
pub(super) struct Copies {
    /// Why the backup must be kept, for people.
    pub(super) problems: Vec<String>,
    /// Snapshots, by the namespace of their repository.
    by_namespace: BTreeMap<String, BTreeSet<String>>,
}

/// Reads Lifeboat's list and Velero's.
pub(super) async fn read(location: &Location, backup: &str) -> Copies {
    let mut copies = Copies::default();
    let Ok(files) = BackupFiles::new(backup) else { return copies };
    for key in [files.volume_copies(), files.pod_volume_backups()] {
        match list::<Value>(location, &key).await {
            Ok(listed) => listed.iter().for_each(|copy| copies.add(copy)),
            Err(error) => copies.problems.push(error.to_string()),
        }
    }
    match list::<BackupVolumeInfo>(location, &files.volume_info()).await {
        Ok(volumes) => volumes.iter().for_each(|volume| copies.add_moved(volume)),
        Err(error) => copies.problems.push(error.to_string()),
    }
    copies
}

impl Copies {
    fn add(&mut self, copy: &Value) {
        let text = |path: &str| copy.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let (snapshot, namespace) = (text("/status/snapshotID"), text("/spec/pod/namespace"));
        if snapshot.is_empty() {
            return;
        }
        if !matches!(text("/spec/uploaderType"), "" | "restic") {
            self.problems.push(format!(
                "the data of volume '{}' of pod '{namespace}/{}' remains: it is in a {} repository, which only Velero \
                 reads; delete this backup with Velero",
                text("/spec/volume"),
                text("/spec/pod/name"),
                text("/spec/uploaderType"),
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

    /// Forgets all snapshots, one repository after the other.
    pub(super) async fn forget(&self, context: &Context, location: &Location) -> SnapshotsDeleted {
        let mut gone = SnapshotsDeleted::default();
        for (namespace, snapshots) in &self.by_namespace {
            let ids: Vec<String> = snapshots.iter().cloned().collect();
            let key = repositories::key(&LocationName::new(&location.name), &NamespaceName::new(namespace));
            match repositories::forget(context, &key, &ids).await {
                Ok(()) => gone.any = true,
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
