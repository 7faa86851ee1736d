//! Labels, annotations and finalizers of group `velero.io` that stock clients, plugins and old backups rely on, with
//! Velero's names.

pub use crate::common::names::EXCLUDE_FROM_BACKUP;

/// Label: the name of the backup an object belongs to.
pub const BACKUP_NAME: &str = "velero.io/backup-name";
/// Label: the UID of the backup an object belongs to.
pub const BACKUP_UID: &str = "velero.io/backup-uid";
/// Label: the name of the restore an object comes from.
pub const RESTORE_NAME: &str = "velero.io/restore-name";
/// Label: the UID of the restore an object belongs to.
pub const RESTORE_UID: &str = "velero.io/restore-uid";
/// Label: the name of the schedule that created a backup.
pub const SCHEDULE_NAME: &str = "velero.io/schedule-name";
/// Label: the name of the storage location a backup or repository is in.
pub const STORAGE_LOCATION: &str = "velero.io/storage-location";
/// Label: the namespace a repository holds volumes of.
pub const VOLUME_NAMESPACE: &str = "velero.io/volume-namespace";
/// Label: the format of a repository.
pub const REPOSITORY_TYPE: &str = "velero.io/repository-type";
/// Label: the UID of the pod whose volume is copied.
pub const POD_UID: &str = "velero.io/pod-uid";
/// Label: the UID of the claim whose volume is copied.
pub const PVC_UID: &str = "velero.io/pvc-uid";
/// Label: the ID of the operation an object belongs to.
pub const ASYNC_OPERATION_ID: &str = "velero.io/async-operation-id";
/// Label: claims with the same value are snapshotted as one group, unless a backup names another label.
pub const VOLUME_GROUP: &str = "velero.io/volume-group";
/// Label: why an expired backup could not be deleted.
pub const GC_FAILURE: &str = "velero.io/gc-failure";
/// Label: a ConfigMap with settings for a plugin.
pub const PLUGIN_CONFIG: &str = "velero.io/plugin-config";

/// Annotation: the name of the claim whose volume is copied.
pub const PVC_NAME: &str = "velero.io/pvc-name";
/// Annotation on a Backup or Restore: how long its pod volumes may take.
pub const POD_VOLUME_TIMEOUT: &str = "velero.io/pod-volume-timeout";
/// Annotation on a Backup: the server's resource timeout, for plugins.
pub const RESOURCE_TIMEOUT: &str = "velero.io/resource-timeout";
/// Annotation on a Backup: version of the cluster, as its API server reports it.
pub const SOURCE_CLUSTER_GIT_VERSION: &str = "velero.io/source-cluster-k8s-gitversion";
/// Annotation on a Backup: major version of the cluster.
pub const SOURCE_CLUSTER_MAJOR_VERSION: &str = "velero.io/source-cluster-k8s-major-version";
/// Annotation on a Backup: minor version of the cluster.
pub const SOURCE_CLUSTER_MINOR_VERSION: &str = "velero.io/source-cluster-k8s-minor-version";
/// Annotation that an action sets on an item to have it dropped from the backup.
pub const SKIP_FROM_BACKUP: &str = "velero.io/skip-from-backup";
/// Annotation on an object, "true" or "false": whether its status is restored. Overrides the Restore.
pub const RESTORE_STATUS: &str = "velero.io/restore-status";
/// Annotation on a pod: names of the volumes to copy, separated by commas.
pub const BACKUP_VOLUMES: &str = "backup.velero.io/backup-volumes";
/// Annotation on a pod: names of the volumes not to copy, separated by commas.
pub const BACKUP_VOLUMES_EXCLUDES: &str = "backup.velero.io/backup-volumes-excludes";
/// Annotation that an action sets on an item: its additional items are backed up even if filters exclude them.
pub const MUST_INCLUDE_ADDITIONAL_ITEMS: &str = "backup.velero.io/must-include-additional-items";

/// Finalizer on a Restore: its files in storage are deleted before it is.
pub const RESTORE_FINALIZER: &str = "restores.velero.io/external-resources-finalizer";
/// Finalizer on PodVolumeBackup and PodVolumeRestore.
pub const POD_VOLUME_FINALIZER: &str = "velero.io/pod-volume-finalizer";
/// Finalizer on DataUpload and DataDownload.
pub const DATA_MOVE_FINALIZER: &str = "velero.io/data-upload-download-finalizer";
