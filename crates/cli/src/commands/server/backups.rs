//! The server's flags for backups, with the names that stock Velero uses.

use std::time::Duration;

use lifeboat_api::velero::names;
use lifeboat_plan::velero::backup::defaults::ServerDefaults;
use lifeboat_velero::BackupSettings;

use super::duration;

#[derive(clap::Args)]
pub(super) struct BackupArgs {
    /// How many item blocks of one backup are processed in parallel
    #[arg(long, default_value_t = 8)]
    item_block_worker_count: usize,
    /// How many backups run in parallel
    #[arg(long, default_value_t = 1)]
    concurrent_backups: usize,
    /// How long to keep backups without a ttl of their own
    #[arg(long, default_value = "720h0m0s", value_parser = duration)]
    default_backup_ttl: Duration,
    /// How many objects to list per request; 0 for all
    #[arg(long, default_value_t = 500)]
    client_page_size: u32,
    /// How long operations of actions may take, unless the backup or restore sets itemOperationTimeout
    #[arg(long, default_value = "4h0m0s", value_parser = duration)]
    pub(super) default_item_operation_timeout: Duration,
    /// Copy the files of every pod volume, unless the backup sets defaultVolumesToFsBackup
    #[arg(long)]
    default_volumes_to_fs_backup: bool,
    /// Copy the data of CSI snapshots into storage, unless the backup sets snapshotMoveData
    #[arg(long)]
    default_snapshot_move_data: bool,
    /// Label of claims that are snapshotted together, unless the backup names another one
    #[arg(long, value_name = "KEY", default_value = names::VOLUME_GROUP)]
    volume_group_snapshot_label_key: String,
    /// Location of backups that name none, if no location is marked as default
    #[arg(long, default_value = "default")]
    default_backup_storage_location: String,
    /// Default volume snapshot location of providers that have several, as PROVIDER:LOCATION,…
    #[arg(long, value_delimiter = ',', value_parser = provider_location)]
    default_volume_snapshot_locations: Vec<(String, String)>,
    /// How long single steps may take: in plugins (which find it in each backup), and in a restore until a
    /// custom resource definition is established or a claim is bound
    #[arg(long, default_value = "10m0s", value_parser = duration)]
    pub(super) resource_timeout: Duration,
    /// Features to enable, separated by commas, such as EnableAPIGroupVersions
    #[arg(long, value_delimiter = ',')]
    features: Vec<String>,
}

impl BackupArgs {
    pub(super) fn settings(self, velero_compatible: bool) -> BackupSettings {
        BackupSettings {
            workers: self.item_block_worker_count.max(1),
            concurrent: self.concurrent_backups.max(1),
            page_size: self.client_page_size,
            features: self.features.into_iter().map(|name| name.trim().to_owned()).collect(),
            default_snapshot_locations: self.default_volume_snapshot_locations.into_iter().collect(),
            velero_compatible,
            defaults: ServerDefaults {
                ttl: self.default_backup_ttl,
                item_operation_timeout: self.default_item_operation_timeout,
                volumes_to_fs_backup: self.default_volumes_to_fs_backup,
                snapshot_move_data: self.default_snapshot_move_data,
                volume_group_label: self.volume_group_snapshot_label_key,
                location: self.default_backup_storage_location,
                resource_timeout: self.resource_timeout,
            },
        }
    }
}

fn provider_location(text: &str) -> Result<(String, String), String> {
    match text.trim().split_once(':') {
        Some((provider, location)) if !provider.is_empty() && !location.is_empty() => {
            Ok((provider.to_owned(), location.to_owned()))
        }
        _ => Err("it must be PROVIDER:LOCATION, such as velero.io/aws:us-east-1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_snapshot_location_has_a_provider() {
        let made = provider_location("velero.io/aws:east").unwrap();
        assert_eq!(made, ("velero.io/aws".to_owned(), "east".to_owned()));
        for text in ["aws", ":east", "aws:"] {
            assert!(provider_location(text).is_err(), "{text}");
        }
    }
}
