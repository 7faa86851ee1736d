//! CSI snapshots that are missing in the archive, or whose archive is gone or damaged: those that the cluster still
//! has, and those that the list of volumes names, are deleted by handle and driver. Snapshots that cannot be deleted
//! are named, and then the backup is kept.

use std::sync::Arc;

use kube::ResourceExt;
use lifeboat_api::common::BackupUid;
use lifeboat_api::velero::Backup;
use lifeboat_archive::documents::{BackupVolumeInfo, CsiSnapshotInfo};
use lifeboat_cluster::objects;
use lifeboat_plan::velero::csi::{CONTENT_DELETER, content_of_handle};
use lifeboat_plugin::actions::DeleteItemAction;

use super::gather::Gathered;
use super::items::{ActionsResult, DeleteActionError, in_time};
use super::owned::Owner;
use super::snapshots::SnapshotsDeleted;
use crate::context::Context;
use crate::csi;

/// Deletes these snapshots; all others are deleted by their action, with the contents in the archive.
pub(super) async fn delete(
    context: &Context,
    actions: &[Arc<dyn DeleteItemAction>],
    gathered: &Gathered,
    owner: &Owner,
    ran: &ActionsResult,
) -> SnapshotsDeleted {
    let mut gone = SnapshotsDeleted::default();
    let problems = &mut gone.problems;
    if let Some(message) = &ran.unread {
        let uid = gathered.backup.as_ref().and_then(ResourceExt::uid).unwrap_or_default();
        tracing::warn!(
            backup = gathered.name,
            problem = message,
            "the archive cannot be read: what plugins made for single objects may be left behind"
        );
        problems.extend(csi::discard(context, &BackupUid::new(uid)).await);
    }
    for volume in owner.volumes.iter().filter(|volume| !volume.skipped && volume.result != "failed") {
        let unknown = |csi: &&CsiSnapshotInfo| !ran.contents.contains(&csi.vsc_name);
        let Some(csi) = volume.csi_snapshot_info.as_ref().filter(unknown) else { continue };
        if csi.snapshot_handle.is_empty() && csi.vsc_name.is_empty() {
            continue;
        }
        // The others are named with all that is left.
        if !csi.snapshot_handle.is_empty()
            && !csi.driver.is_empty()
            && !owner.owns_csi(&csi.driver, &csi.snapshot_handle)
        {
            continue;
        }
        let deleted = delete_one(context, actions, gathered, csi).await;
        gone.any |= deleted.is_ok();
        if let Err(error) = deleted {
            let BackupVolumeInfo { pvc_namespace, pvc_name, .. } = volume;
            let CsiSnapshotInfo { snapshot_handle: handle, vsc_name, .. } = csi;
            gone.problems.push(format!(
                "the CSI snapshot '{handle}' of claim '{pvc_namespace}/{pvc_name}' remains: the archive does not have its \
                 VolumeSnapshotContent '{vsc_name}', and by its handle it cannot be deleted: {error}"
            ));
        }
    }
    gone
}

/// Why a snapshot cannot be deleted by its handle.
#[derive(Debug, thiserror::Error)]
enum NotDeleted {
    #[error("the list of volumes has no handle and driver for it")]
    NoHandle,
    #[error("this server has no action for it")]
    NoAction,
    #[error("its Backup is gone")]
    BackupGone,
    #[error(transparent)]
    Backup(#[from] serde_json::Error),
    #[error(transparent)]
    Action(#[from] DeleteActionError),
}

/// Deletes one snapshot as the action does for a content of the archive; the Secret for the deletion is unknown.
async fn delete_one(
    context: &Context,
    actions: &[Arc<dyn DeleteItemAction>],
    gathered: &Gathered,
    csi: &CsiSnapshotInfo,
) -> Result<(), NotDeleted> {
    if csi.snapshot_handle.is_empty() || csi.driver.is_empty() {
        return Err(NotDeleted::NoHandle);
    }
    let action = actions.iter().find(|action| action.name() == CONTENT_DELETER);
    let action = action.ok_or(NotDeleted::NoAction)?;
    let backup = gathered.backup.as_ref().ok_or(NotDeleted::BackupGone)?;
    let backup: Backup = objects::typed(backup)?;
    let item = content_of_handle(&csi.vsc_name, &csi.snapshot_handle, &csi.driver, &gathered.name);
    let limit = context.settings.backup.defaults.resource_timeout;
    Ok(in_time(limit, action.execute(&item, &backup)).await?)
}
