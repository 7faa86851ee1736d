//! Settings of backups of objects.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lifeboat_api::velero::names;
use lifeboat_plan::velero::backup::defaults::ServerDefaults;

/// Settings of the backup controller and its passes.
#[derive(Clone, Debug)]
pub struct BackupSettings {
    /// How many blocks of items are backed up at once.
    pub workers: usize,
    /// How many backups run at once.
    pub concurrent: usize,
    /// How many objects a page of a list has; 0 for all at once.
    pub page_size: u32,
    /// Upstream's feature flags, such as EnableAPIGroupVersions.
    pub features: BTreeSet<String>,
    /// The VolumeSnapshotLocation to use if a provider has several, by provider.
    pub default_snapshot_locations: BTreeMap<String, String>,
    /// Whether the volumes of a backup are also listed in the file that Velero reads. See docs/volumes.md.
    pub velero_compatible: bool,
    /// Defaults for fields that a spec does not set.
    pub defaults: ServerDefaults,
}

impl BackupSettings {
    pub fn has_feature(&self, name: &str) -> bool {
        self.features.contains(name)
    }
}

impl Default for BackupSettings {
    fn default() -> Self {
        Self {
            workers: 8,
            concurrent: 1,
            page_size: 500,
            features: BTreeSet::new(),
            default_snapshot_locations: BTreeMap::new(),
            velero_compatible: false,
            defaults: ServerDefaults {
                ttl: Duration::from_hours(720),
                item_operation_timeout: Duration::from_hours(4),
                volumes_to_fs_backup: false,
                snapshot_move_data: false,
                volume_group_label: names::VOLUME_GROUP.to_owned(),
                location: "default".to_owned(),
                resource_timeout: Duration::from_mins(10),
            },
        }
    }
}
