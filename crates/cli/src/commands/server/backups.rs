//! The server's flags for backups, under upstream's names.

use std::time::Duration;

use lifeboat_api::velero::names;
use lifeboat_operator::BackupSettings;
use lifeboat_plan::backup::defaults::ServerDefaults;

use super::duration;

#[derive(clap::Args)]
pub(super) struct BackupArgs {
    /// How many groups of items of one backup are worked on at once
    #[arg(long, default_value_t = 8)]
    item_block_worker_count: usize,
    /// How many backups run at once
    #[arg(long, default_value_t = 1)]
    concurrent_backups: usize,
    /// How long backups are kept that do not say it themselves
    #[arg(long, default_value = "720h0m0s", value_parser = duration)]
    default_backup_ttl: Duration,
    /// How many objects are asked for at once; 0 for all
    #[arg(long, default_value_t = 500)]
    client_page_size: u32,
    /// How long operations in the background may take where the backup does not say it
    #[arg(long, default_value = "4h0m0s", value_parser = duration)]
    pub(super) default_item_operation_timeout: Duration,
    /// Copy the files of every pod volume, where the backup does not say otherwise
    #[arg(long)]
    default_volumes_to_fs_backup: bool,
    /// Copy the data of volume snapshots into storage, where the backup does not say otherwise
    #[arg(long)]
    default_snapshot_move_data: bool,
    /// Claims with the same value of this label are snapshotted together, where the backup names no other label
    #[arg(long, value_name = "KEY", default_value = names::VOLUME_GROUP)]
    volume_group_snapshot_label_key: String,
    /// The location of backups that name none, where no location is marked as default
    #[arg(long, default_value = "default")]
    default_backup_storage_location: String,
    /// The volume snapshot location to use of a provider that has several, as PROVIDER:LOCATION, with commas between
    #[arg(long, value_delimiter = ',', value_parser = provider_location)]
    default_volume_snapshot_locations: Vec<(String, String)>,
    /// How long single steps may take: of plugins (it is written into each backup for them), and of a custom resource
    /// definition to be established in a restore
    #[arg(long, default_value = "10m0s", value_parser = duration)]
    pub(super) resource_timeout: Duration,
    /// Features to switch on, with commas between them, such as EnableAPIGroupVersions
    #[arg(long, value_delimiter = ',')]
    features: Vec<String>,
}

impl BackupArgs {
    pub(super) fn settings(self) -> BackupSettings {
        BackupSettings {
            workers: self.item_block_worker_count.max(1),
            concurrent: self.concurrent_backups.max(1),
            page_size: self.client_page_size,
            features: self.features.into_iter().map(|name| name.trim().to_owned()).collect(),
            default_snapshot_locations: self.default_volume_snapshot_locations.into_iter().collect(),
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
