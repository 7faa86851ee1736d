//! Finds the file in storage that a request names: the backup or restore, its location, the key of the file.

use kube::Resource;
use kube::api::DynamicObject;
use lifeboat_api::velero::{Backup, DownloadTarget, DownloadTargetKind, Restore};
use lifeboat_archive::{BackupFiles, RestoreFiles};
use lifeboat_cluster::{Attempt, objects};
use lifeboat_plan::velero::download::{Owner, owner};
use serde_json::Value;

use super::NoLink;
use crate::context::Context;

/// One file in storage.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) location: String,
    pub(super) key: String,
}

pub(super) async fn find(context: &Context, wanted: &DownloadTarget) -> Result<Target, NoLink> {
    let DownloadTarget { kind, name } = wanted;
    let known =
        owner(kind).ok_or_else(|| NoLink::Never(format!("there is no kind of file called '{kind}'")))?;
    let key = key(kind, name)
        .ok_or_else(|| NoLink::Never(format!("'{name}' is not a valid name of a backup or restore")))?;
    let backup = match known {
        Owner::Backup => name.clone(),
        Owner::Restore => {
            let restore = read::<Restore>(context, name).await?;
            text(&restore, "/spec/backupName")
        }
    };
    let backup = read::<Backup>(context, &backup).await?;
    Ok(Target { location: text(&backup, "/spec/storageLocation"), key })
}

async fn read<K: Resource<DynamicType = ()>>(context: &Context, name: &str) -> Result<DynamicObject, NoLink> {
    let kind = K::kind(&());
    let api = objects::namespaced(&context.client, &context.namespace, &objects::resource_of::<K>());
    let missing = || NoLink::Never(format!("there is no {kind} '{name}'"));
    if name.is_empty() {
        return Err(missing());
    }
    let found = api.get_opt(name).await.attempt(format!("read {kind} {name}"));
    found.map_err(|error| NoLink::NotYet(error.chain()))?.ok_or_else(missing)
}

fn text(object: &DynamicObject, path: &str) -> String {
    object.data.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn key(kind: &DownloadTargetKind, name: &str) -> Option<String> {
    let (backup, restore) = (BackupFiles::new(name).ok()?, RestoreFiles::new(name).ok()?);
    Some(match kind {
        DownloadTargetKind::BackupLog => backup.log(),
        DownloadTargetKind::BackupContents => backup.contents(),
        DownloadTargetKind::BackupVolumeSnapshots => backup.volume_snapshots(),
        DownloadTargetKind::BackupItemOperations => backup.item_operations(),
        DownloadTargetKind::BackupResourceList => backup.resource_list(),
        DownloadTargetKind::BackupResults => backup.results(),
        DownloadTargetKind::CsiBackupVolumeSnapshots => backup.csi_snapshots(),
        DownloadTargetKind::CsiBackupVolumeSnapshotContents => backup.csi_contents(),
        DownloadTargetKind::BackupVolumeInfos => backup.volume_info(),
        DownloadTargetKind::RestoreLog => restore.log(),
        DownloadTargetKind::RestoreResults => restore.results(),
        DownloadTargetKind::RestoreResourceList => restore.resource_list(),
        DownloadTargetKind::RestoreItemOperations => restore.item_operations(),
        DownloadTargetKind::RestoreVolumeInfo => restore.volume_info(),
        DownloadTargetKind::Other(_) => return None,
    })
}
