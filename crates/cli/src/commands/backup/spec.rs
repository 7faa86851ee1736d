//! The spec of a backup from flags. `backup create` puts it into a Backup, `schedule create` into a schedule's
//! template.

use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::{BackupSpec, UploaderConfigForBackup};
use lifeboat_plan::velero::backup::validate::list_problems;

use super::ordered::OrderedArg;
use crate::commands::backup_location::spec::ConfigArg;
use crate::error::CliError;
use crate::objects::flags::{OrSelectorArg, SelectorArg, config_map, given, length};

/// The older flags that choose types. They cannot be combined with the newer ones.
const OLD: [&str; 3] = ["include_resources", "exclude_resources", "include_cluster_resources"];

#[derive(clap::Args, Clone, Default)]
pub(crate) struct BackupFlags {
    /// Namespaces to back up; "*", "?" and "[…]" are wildcards [default: all]
    #[arg(long, value_name = "NAMESPACE,…", value_delimiter = ',', help_heading = "What to back up")]
    pub(crate) include_namespaces: Vec<String>,
    /// Namespaces to exclude
    #[arg(long, value_name = "NAMESPACE,…", value_delimiter = ',', help_heading = "What to back up")]
    pub(crate) exclude_namespaces: Vec<String>,
    /// Types to back up, such as deployments.apps [default: all]
    #[arg(long, value_name = "TYPE,…", value_delimiter = ',', help_heading = "What to back up")]
    pub(crate) include_resources: Vec<String>,
    /// Types to exclude
    #[arg(long, value_name = "TYPE,…", value_delimiter = ',', help_heading = "What to back up")]
    pub(crate) exclude_resources: Vec<String>,
    /// Whether to back up cluster-scoped objects: all, or with =false none [default: those that selected
    /// objects refer to]
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL", help_heading = "What to back up")]
    pub(crate) include_cluster_resources: Option<bool>,
    /// Cluster-scoped types to back up; "*" for all. This and the next three cannot be combined with the
    /// previous three
    #[arg(long, value_name = "TYPE,…", value_delimiter = ',', conflicts_with_all = OLD, help_heading = "What to back up")]
    pub(crate) include_cluster_scoped_resources: Vec<String>,
    /// Cluster-scoped types to exclude; "*" for all
    #[arg(long, value_name = "TYPE,…", value_delimiter = ',', conflicts_with_all = OLD, help_heading = "What to back up")]
    pub(crate) exclude_cluster_scoped_resources: Vec<String>,
    /// Namespaced types to back up; "*" for all
    #[arg(long, value_name = "TYPE,…", value_delimiter = ',', conflicts_with_all = OLD, help_heading = "What to back up")]
    pub(crate) include_namespace_scoped_resources: Vec<String>,
    /// Namespaced types to exclude; "*" for all
    #[arg(long, value_name = "TYPE,…", value_delimiter = ',', conflicts_with_all = OLD, help_heading = "What to back up")]
    pub(crate) exclude_namespace_scoped_resources: Vec<String>,
    /// Only objects with these labels, such as app=web,tier!=cache
    #[arg(short = 'l', long, value_name = "SELECTOR", help_heading = "What to back up")]
    pub(crate) selector: Option<SelectorArg>,
    /// Only objects that match one of these, such as "app=web or app=db"
    #[arg(long, value_name = "SELECTOR or …", conflicts_with = "selector", help_heading = "What to back up")]
    pub(crate) or_selector: Option<OrSelectorArg>,
    /// Order within types, such as "pods=ns1/db-1,ns1/db-0;persistentvolumes=pv2,pv1"; names may be globs, or "~" and a regular expression
    #[arg(long, value_name = "TYPE=NAME,…;…", help_heading = "What to back up")]
    pub(crate) ordered_resources: Option<OrderedArg>,
    /// ConfigMap with policies for volumes, namespaces and types
    #[arg(long, value_name = "CONFIGMAP", help_heading = "What to back up")]
    pub(crate) resource_policies_configmap: Option<String>,
    /// How long to keep the backup, such as 720h [default: the server's setting]
    #[arg(long, value_name = "DURATION", value_parser = length, allow_hyphen_values = true, help_heading = "Where and how long")]
    pub(crate) ttl: Option<GoDuration>,
    /// Location to store it in [default: the default location]
    #[arg(long, value_name = "NAME", help_heading = "Where and how long")]
    pub(crate) storage_location: Option<String>,
    /// Locations for snapshots by plugins, at most one for each provider
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = "Where and how long")]
    pub(crate) volume_snapshot_locations: Vec<String>,
    /// Labels of the backup
    #[arg(long, value_name = "KEY=VALUE,…", help_heading = "Where and how long")]
    pub(crate) labels: Option<ConfigArg>,
    /// Annotations of the backup
    #[arg(long, value_name = "KEY=VALUE,…", help_heading = "Where and how long")]
    pub(crate) annotations: Option<ConfigArg>,
    /// Whether to snapshot volumes; with =true a volume without a snapshot is an error [default: where
    /// possible]
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL", help_heading = "Volumes")]
    pub(crate) snapshot_volumes: Option<bool>,
    /// Whether to copy the data of CSI snapshots into the location
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL", help_heading = "Volumes")]
    pub(crate) snapshot_move_data: Option<bool>,
    /// Whether to copy the files of every pod volume that no annotation excludes
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL", help_heading = "Volumes")]
    pub(crate) default_volumes_to_fs_backup: Option<bool>,
    /// Data mover that copies the data of snapshots [default: the built-in one]
    #[arg(long, value_name = "NAME", help_heading = "Volumes")]
    pub(crate) data_mover: Option<String>,
    /// How many files a mover reads in parallel, at most 16 [default: one for each core, at most 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16), allow_negative_numbers = true, help_heading = "Volumes")]
    pub(crate) parallel_files_upload: Option<u16>,
    /// How long to wait for a CSI snapshot [default: 10m]
    #[arg(long, value_name = "DURATION", value_parser = length, allow_hyphen_values = true, help_heading = "Volumes")]
    pub(crate) csi_snapshot_timeout: Option<GoDuration>,
    /// Label of claims that are snapshotted together: those with the same value [default:
    /// velero.io/volume-group]
    #[arg(long, value_name = "KEY", help_heading = "Volumes")]
    pub(crate) volume_group_snapshot_label_key: Option<String>,
    /// How long operations of actions (data movement, plugins) may take [default: the server's setting]
    #[arg(long, value_name = "DURATION", value_parser = length, allow_hyphen_values = true, help_heading = "Volumes")]
    pub(crate) item_operation_timeout: Option<GoDuration>,
}

impl BackupFlags {
    /// Refuses lists that would fail the validation of every backup.
    pub(crate) fn check(&self) -> Result<(), CliError> {
        let problems = list_problems(&self.spec());
        if problems.is_empty() {
            return Ok(());
        }
        Err(CliError::refused(problems.join("; "))
            .help("resolve the conflict between the --include and --exclude flags"))
    }

    /// The spec with the given flags only; the server fills in defaults.
    pub(crate) fn spec(&self) -> BackupSpec {
        let ordered = self.ordered_resources.as_ref().map(|OrderedArg(order)| order.clone());
        let parallel = self.parallel_files_upload.filter(|count| *count > 0);
        BackupSpec {
            included_namespaces: given(&self.include_namespaces),
            excluded_namespaces: given(&self.exclude_namespaces),
            included_resources: given(&self.include_resources),
            excluded_resources: given(&self.exclude_resources),
            include_cluster_resources: self.include_cluster_resources,
            included_cluster_scoped_resources: given(&self.include_cluster_scoped_resources),
            excluded_cluster_scoped_resources: given(&self.exclude_cluster_scoped_resources),
            included_namespace_scoped_resources: given(&self.include_namespace_scoped_resources),
            excluded_namespace_scoped_resources: given(&self.exclude_namespace_scoped_resources),
            label_selector: self.selector.as_ref().map(|SelectorArg(selector)| selector.clone()),
            or_label_selectors: self.or_selector.as_ref().map(|OrSelectorArg(selectors)| selectors.clone()),
            ordered_resources: ordered.filter(|order| !order.is_empty()),
            resource_policy: config_map(self.resource_policies_configmap.as_ref()),
            ttl: GoDuration::set(self.ttl),
            storage_location: self.storage_location.clone(),
            volume_snapshot_locations: given(&self.volume_snapshot_locations),
            snapshot_volumes: self.snapshot_volumes,
            snapshot_move_data: self.snapshot_move_data,
            default_volumes_to_fs_backup: self.default_volumes_to_fs_backup,
            datamover: self.data_mover.clone(),
            uploader_config: parallel
                .map(|count| UploaderConfigForBackup { parallel_files_upload: Some(i64::from(count)) }),
            csi_snapshot_timeout: GoDuration::set(self.csi_snapshot_timeout),
            volume_group_snapshot_label_key: self.volume_group_snapshot_label_key.clone(),
            item_operation_timeout: GoDuration::set(self.item_operation_timeout),
            ..BackupSpec::default()
        }
    }
}
