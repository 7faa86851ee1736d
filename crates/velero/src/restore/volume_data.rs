//! Where a backup has the data of its volumes: its volume info and, for volumes that are missing there (older
//! versions of Velero), the files about pod volumes, native snapshots and CSI snapshots, and the DataUploads in the
//! archive.

use std::collections::BTreeSet;

use lifeboat_api::velero::{DataMovePhase, DataUpload, PodVolumeBackup};
use lifeboat_archive::documents::{BackupVolumeInfo, NativeSnapshot, PodVolumeInfo};
use lifeboat_archive::{BackupFiles, ObjectStore, Spool};
use lifeboat_plan::catalogue::{GroupResource, ItemId};
use lifeboat_plan::json::text;
use lifeboat_plan::velero::pod_volumes::{self, Copied};
use lifeboat_plan::velero::restore::native::Snapshot;
use lifeboat_plan::velero::restore::volumes::{DataIn, VolumeData};
use serde_json::Value;

use super::after::{document, elements};
use super::error::RestoreError;
use super::handler::VolumeKey;
use crate::typed::readable;

/// Reads all of these.
pub(super) async fn read(
    store: &dyn ObjectStore,
    files: &BackupFiles,
    spool: &Spool,
) -> Result<Vec<BackupVolumeInfo>, RestoreError> {
    let infos: Option<Vec<BackupVolumeInfo>> = document(store, &files.volume_info()).await?;
    let mut found = infos.clone().unwrap_or_default();
    let known: BTreeSet<&str> = found.iter().map(|info| info.pv_name.as_str()).collect();
    let volumes = GroupResource::new("", "persistentvolumes");
    let complete = infos.is_some()
        && spool.items().filter(|item| *item.resource() == volumes).all(|item| known.contains(item.name()));
    if !complete {
        let known = known.into_iter().map(str::to_owned).collect();
        let older = Older { store, files, spool, known, has_info: infos.is_some() };
        found.extend(older.read().await?);
    }
    Ok(found)
}

/// The plugin snapshots of a backup.
pub(super) async fn snapshots(
    store: &dyn ObjectStore,
    files: &BackupFiles,
) -> Result<Vec<Snapshot>, RestoreError> {
    let listed: Option<Vec<NativeSnapshot>> = document(store, &files.volume_snapshots()).await?;
    let listed = listed.unwrap_or_default().into_iter();
    Ok(listed
        .map(|NativeSnapshot { spec, status }| Snapshot {
            volume: spec.persistent_volume_name,
            id: status.provider_snapshot_id,
            location: spec.location,
            volume_type: spec.volume_type,
            zone: spec.volume_az,
            iops: spec.volume_iops,
        })
        .collect())
}

/// The copies of pod volumes: Lifeboat's own list, and upstream's.
pub(super) async fn copies(
    store: &dyn ObjectStore,
    files: &BackupFiles,
) -> Result<Vec<Copied>, RestoreError> {
    let mut all: Vec<PodVolumeBackup> = Vec::new();
    for key in [files.volume_copies(), files.pod_volume_backups()] {
        all.extend(elements(store, &key, |copy| readable(&copy).map(without_more)).await?);
    }
    Ok(pod_volumes::copies(&all))
}

/// A copy without what a restore does not read, and a bucket may have any amount of.
fn without_more(mut copy: PodVolumeBackup) -> PodVolumeBackup {
    copy.metadata.managed_fields = None;
    copy.metadata.owner_references = None;
    copy.metadata.finalizers = None;
    copy
}

/// The volumes that the restore has not reported yet: without copies of pod volumes that were restored or have an
/// error of their own.
pub(super) fn unreported(infos: &[BackupVolumeInfo], reported: &BTreeSet<VolumeKey>) -> Vec<VolumeData> {
    let mut held = data(infos);
    held.retain(|one| {
        one.pod.as_ref().is_none_or(|pod| one.data != DataIn::PodVolume || !reported.contains(pod))
    });
    held
}

/// What decisions need to know about the volumes' data.
pub(super) fn data(infos: &[BackupVolumeInfo]) -> Vec<VolumeData> {
    infos
        .iter()
        .map(|info| VolumeData {
            volume: info.pv_name.clone(),
            claim: (!info.pvc_name.is_empty()).then(|| (info.pvc_namespace.clone(), info.pvc_name.clone())),
            pod: info
                .pvb_info
                .as_ref()
                .map(|pod| (pod.pod_namespace.clone(), pod.pod_name.clone(), pod.volume_name.clone())),
            data: data_in(info),
        })
        .collect()
}

fn data_in(info: &BackupVolumeInfo) -> DataIn {
    match info.backup_method.as_str() {
        _ if info.skipped => skipped(info),
        // A copy that misses some files can still be restored.
        "PodVolumeBackup" if info.pvb_info.as_ref().is_some_and(|pod| !pod.snapshot_handle.is_empty()) => {
            DataIn::PodVolume
        }
        "CSISnapshot" if incomplete(info) => DataIn::MovedSnapshot,
        _ if info.result == "failed" => DataIn::Failed,
        "NativeSnapshot" => DataIn::NativeSnapshot,
        "PodVolumeBackup" => DataIn::PodVolume,
        "CSISnapshot" if info.snapshot_data_moved => DataIn::MovedSnapshot,
        "CSISnapshot" => DataIn::CsiSnapshot,
        _ => DataIn::Nothing,
    }
}

/// A volume that was skipped. Backups of Velero, and of older versions, do not record whether it was
/// declined, only a text with the reason.
fn skipped(info: &BackupVolumeInfo) -> DataIn {
    const DECLINED: [&str; 3] = ["policy", "snapshotVolumes", "opted out"];
    let is_declined = info.declined || DECLINED.iter().any(|word| info.skipped_reason.contains(word));
    // The storage of other volumes outlived their claims; they are restored as they are.
    let is_deleted = info.pv_info.as_ref().is_none_or(|volume| volume.reclaim_policy == "Delete");
    if is_declined || !is_deleted { DataIn::Nothing } else { DataIn::Unasked }
}

/// Whether the data of a CSI snapshot was moved incompletely: what was moved can be restored.
fn incomplete(info: &BackupVolumeInfo) -> bool {
    let moved = info.snapshot_data_movement_info.as_ref().filter(|_| info.snapshot_data_moved);
    info.result == "failed" && moved.is_some_and(|moved| !moved.snapshot_handle.is_empty())
}

/// The claims that are restored from incompletely moved snapshots: their namespace in the backup, name, and a
/// warning.
pub(super) fn incomplete_claims(infos: &[BackupVolumeInfo]) -> Vec<(String, String, String)> {
    let found = infos.iter().filter(|info| !info.skipped && incomplete(info));
    found
        .map(|info| {
            let BackupVolumeInfo { pvc_namespace, pvc_name, .. } = info;
            let message = format!(
                "claim {pvc_namespace}/{pvc_name} is restored from an incomplete copy: files could not be read when it was backed \
                 up; the results of the backup name them"
            );
            (pvc_namespace.clone(), pvc_name.clone(), message)
        })
        .collect()
}

/// Reads what versions of Velero without volume info stored.
struct Older<'a> {
    store: &'a dyn ObjectStore,
    files: &'a BackupFiles,
    spool: &'a Spool,
    /// Volumes that are in the volume info.
    known: BTreeSet<String>,
    has_info: bool,
}

impl Older<'_> {
    async fn read(&self) -> Result<Vec<BackupVolumeInfo>, RestoreError> {
        let mut found = self.pod_volumes().await?;
        let snapshots: Option<Vec<NativeSnapshot>> =
            document(self.store, &self.files.volume_snapshots()).await?;
        found.extend(snapshots.unwrap_or_default().into_iter().map(|snapshot| BackupVolumeInfo {
            pv_name: snapshot.spec.persistent_volume_name,
            backup_method: "NativeSnapshot".to_owned(),
            ..BackupVolumeInfo::default()
        }));
        let claim = |snapshot: Value| {
            let text = |path: &str| text(&snapshot, path).to_owned();
            Some((text("/metadata/namespace"), text("/spec/source/persistentVolumeClaimName")))
        };
        for (namespace, claim) in elements(self.store, &self.files.csi_snapshots(), claim).await? {
            found.push(self.of_claim(&namespace, &claim, false).await);
        }
        let uploads = GroupResource::new("velero.io", "datauploads");
        for item in self.spool.items().filter(|item| *item.resource() == uploads) {
            let upload = self.object(&item.id()).await;
            let Some(upload) = upload.as_ref().and_then(readable::<DataUpload>) else { continue };
            found.push(self.of_claim(&upload.spec.source_namespace, &upload.spec.source_pvc, true).await);
        }
        found.retain(|info| !info.pv_name.is_empty() || !info.pvc_name.is_empty() || info.pvb_info.is_some());
        found.retain(|info| info.pv_name.is_empty() || !self.known.contains(&info.pv_name));
        Ok(found)
    }

    /// Copies of pod volumes. If there is volume info, it lists all of them.
    async fn pod_volumes(&self) -> Result<Vec<BackupVolumeInfo>, RestoreError> {
        if self.has_info {
            return Ok(Vec::new());
        }
        let key = self.files.pod_volume_backups();
        let copies = elements(self.store, &key, |copy| readable(&copy).map(without_more)).await?;
        let mut found = Vec::new();
        for copy in copies {
            found.push(self.pod_volume(copy).await);
        }
        Ok(found)
    }

    async fn pod_volume(&self, copy: PodVolumeBackup) -> BackupVolumeInfo {
        let has_failed = *copy.phase() == DataMovePhase::Failed;
        let PodVolumeBackup { spec, status, .. } = copy;
        let (namespace, name) = (spec.pod.namespace.unwrap_or_default(), spec.pod.name.unwrap_or_default());
        let pod = self.object(&ItemId::namespaced(core("pods"), namespace.as_str(), name.as_str())).await;
        let claim = pod.as_ref().and_then(|pod| claim_of(pod, &spec.volume)).unwrap_or_default();
        let mut info = self.of_claim(&namespace, claim, false).await;
        "PodVolumeBackup".clone_into(&mut info.backup_method);
        if has_failed {
            "failed".clone_into(&mut info.result);
        }
        info.pvb_info = Some(PodVolumeInfo {
            volume_name: spec.volume,
            pod_name: name,
            pod_namespace: namespace,
            uploader_type: spec.uploader_type.map(|uploader| uploader.to_string()).unwrap_or_default(),
            snapshot_handle: status.and_then(|status| status.snapshot_id).unwrap_or_default(),
            ..PodVolumeInfo::default()
        });
        info
    }

    /// The info of a claim's CSI snapshot; its volume is the one that the claim in the archive names.
    async fn of_claim(&self, namespace: &str, name: &str, moved: bool) -> BackupVolumeInfo {
        let claim = match name {
            "" => None,
            name => self.object(&ItemId::namespaced(core("persistentvolumeclaims"), namespace, name)).await,
        };
        BackupVolumeInfo {
            pvc_name: name.to_owned(),
            pvc_namespace: if name.is_empty() { String::new() } else { namespace.to_owned() },
            pv_name: claim.map(|claim| text(&claim, "/spec/volumeName").to_owned()).unwrap_or_default(),
            backup_method: "CSISnapshot".to_owned(),
            snapshot_data_moved: moved,
            ..BackupVolumeInfo::default()
        }
    }

    async fn object(&self, id: &ItemId) -> Option<Value> {
        serde_json::from_slice(&self.spool.get(self.spool.find(id)?).await.ok()?).ok()
    }
}

fn core(resource: &str) -> GroupResource {
    GroupResource::new("", resource)
}

/// The claim of a pod's volume.
fn claim_of<'a>(pod: &'a Value, volume: &str) -> Option<&'a str> {
    let volumes = pod.pointer("/spec/volumes")?.as_array()?;
    volumes.iter().find(|one| one["name"] == volume)?.pointer("/persistentVolumeClaim/claimName")?.as_str()
}
