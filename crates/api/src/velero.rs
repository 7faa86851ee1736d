//! Group `velero.io`: the kinds that stock Velero clients, plugins and backups use, and two that Velero designed but
//! never implemented (VolumePluginBackup, VolumePluginRestore).
//!
//! Field for field as in Velero 1.18.3, with our own descriptions. Two rules hold for all kinds. The schemas accept
//! whatever Velero's schemas accept, because an object refused here would break a stock client or the sync of an old
//! backup; controllers report what is wrong with an object in its status. And no kind has a status subresource,
//! because stock clients write spec and status in one patch.
//!
//! Go clients send zero values for fields that are not set: "0s", `{}`, `""`. Durations of zero mean "not set" unless
//! a field says otherwise ([`GoDuration::set`](crate::common::GoDuration::set)), and empty objects decode to
//! the type's default, which has nothing set.

mod backup;
mod backup_repository;
mod backup_storage_location;
mod data_download;
mod data_movement;
mod data_upload;
mod delete_backup_request;
mod download_request;
pub mod names;
mod pod_volume_backup;
mod pod_volume_restore;
mod restore;
mod schedule;
mod server_status_request;
pub mod volume_plugin;
mod volume_plugin_backup;
mod volume_plugin_restore;
mod volume_snapshot_location;

pub use backup::*;
pub use backup_repository::*;
pub use backup_storage_location::*;
pub use data_download::*;
pub use data_movement::*;
pub use data_upload::*;
pub use delete_backup_request::*;
pub use download_request::*;
pub use pod_volume_backup::*;
pub use pod_volume_restore::*;
pub use restore::*;
pub use schedule::*;
pub use server_status_request::*;
pub use volume_plugin::VolumeOperationProgress;
pub use volume_plugin_backup::*;
pub use volume_plugin_restore::*;
pub use volume_snapshot_location::*;

use kube::CustomResourceExt;

use crate::definition::{Crd, VELERO_LABEL};

/// The group's name.
pub const GROUP: &str = "velero.io";

/// The CRDs of the group, the most commonly used ones first.
pub fn crds() -> Vec<Crd> {
    vec![
        crd::<Backup>(),
        crd::<Restore>(),
        crd::<Schedule>(),
        crd::<BackupStorageLocation>(),
        crd::<VolumeSnapshotLocation>(),
        crd::<DeleteBackupRequest>(),
        crd::<DownloadRequest>(),
        crd::<ServerStatusRequest>(),
        crd::<PodVolumeBackup>(),
        crd::<PodVolumeRestore>(),
        crd::<BackupRepository>(),
        crd::<VolumePluginBackup>(),
        crd::<VolumePluginRestore>(),
        crd::<DataUpload>(),
        crd::<DataDownload>(),
    ]
}

fn crd<K: CustomResourceExt>() -> Crd {
    Crd::of::<K>().without_status_subresource().with_optional_spec().label(VELERO_LABEL)
}
