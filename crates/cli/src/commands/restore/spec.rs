//! The spec of a restore from flags.

use clap::ValueEnum;
use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::{
    ExistingResourcePolicy, RestoreSpec, RestoreStatusSpec, UploaderConfigForRestore,
};

use crate::commands::backup_location::spec::ConfigArg;
use crate::objects::flags::{MappingArg, OrSelectorArg, SelectorArg, config_map, given, length};

/// What to do with objects that exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Existing {
    /// Leave them unchanged
    None,
    /// Update them to their state in the backup
    Update,
}

#[derive(clap::Args, Clone, Default)]
pub(crate) struct RestoreFlags {
    /// Namespaces to restore; "*", "?" and "[…]" are wildcards [default: all in the backup]
    #[arg(long, value_name = "NAMESPACE,…", value_delimiter = ',', help_heading = "What to restore")]
    pub(crate) include_namespaces: Vec<String>,
    /// Namespaces to exclude
    #[arg(long, value_name = "NAMESPACE,…", value_delimiter = ',', help_heading = "What to restore")]
    pub(crate) exclude_namespaces: Vec<String>,
    /// Restore namespaces under other names
    #[arg(long, value_name = "FROM:TO,…", help_heading = "What to restore")]
    pub(crate) namespace_mappings: Option<MappingArg>,
    /// Types to restore, such as deployments.apps [default: all in the backup]
    #[arg(long, value_name = "TYPE,…", value_delimiter = ',', help_heading = "What to restore")]
    pub(crate) include_resources: Vec<String>,
    /// Types to exclude
    #[arg(long, value_name = "TYPE,…", value_delimiter = ',', help_heading = "What to restore")]
    pub(crate) exclude_resources: Vec<String>,
    /// Whether to restore cluster-scoped objects: all, or with =false none [default: those that restored
    /// objects refer to]
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL", help_heading = "What to restore")]
    pub(crate) include_cluster_resources: Option<bool>,
    /// Only objects with these labels, such as app=web,tier!=cache
    #[arg(short = 'l', long, value_name = "SELECTOR", help_heading = "What to restore")]
    pub(crate) selector: Option<SelectorArg>,
    /// Only objects that match one of these, such as "app=web or app=db"
    #[arg(long, value_name = "SELECTOR or …", conflicts_with = "selector", help_heading = "What to restore")]
    pub(crate) or_selector: Option<OrSelectorArg>,
    /// ConfigMap with filters for single namespaces and types
    #[arg(long, value_name = "CONFIGMAP", help_heading = "What to restore")]
    pub(crate) resource_policies_configmap: Option<String>,
    /// What to do with existing objects [default: none]
    #[arg(long, value_enum, value_name = "POLICY", help_heading = "How to restore")]
    pub(crate) existing_resource_policy: Option<Existing>,
    /// Types whose status is restored too; "*" for all
    #[arg(long, value_name = "TYPE,…", value_delimiter = ',', help_heading = "How to restore")]
    pub(crate) status_include_resources: Vec<String>,
    /// Types whose status is not restored
    #[arg(long, value_name = "TYPE,…", value_delimiter = ',', help_heading = "How to restore")]
    pub(crate) status_exclude_resources: Vec<String>,
    /// Whether services keep their old node ports
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL", help_heading = "How to restore")]
    pub(crate) preserve_nodeports: Option<bool>,
    /// ConfigMap with rules that change objects before they are restored
    #[arg(long, value_name = "CONFIGMAP", help_heading = "How to restore")]
    pub(crate) resource_modifier_configmap: Option<String>,
    /// Restore everything even from an untrusted location: rights, custom resources, privileged pods, hooks
    #[arg(long, help_heading = "How to restore")]
    pub(crate) allow_privileged: bool,
    /// Labels of the restore
    #[arg(long, value_name = "KEY=VALUE,…", help_heading = "How to restore")]
    pub(crate) labels: Option<ConfigArg>,
    /// Annotations of the restore
    #[arg(long, value_name = "KEY=VALUE,…", help_heading = "How to restore")]
    pub(crate) annotations: Option<ConfigArg>,
    /// Whether to restore the data of volumes [default: true]
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL", help_heading = "Volumes")]
    pub(crate) restore_volumes: Option<bool>,
    /// Whether movers leave holes where files have zeros [default: true]
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL", help_heading = "Volumes")]
    pub(crate) write_sparse_files: Option<bool>,
    /// How many files a mover writes in parallel, at most 16 [default: one for each core, at most 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16), allow_negative_numbers = true, help_heading = "Volumes")]
    pub(crate) parallel_files_download: Option<u16>,
    /// How long operations of actions (data movement, plugins) may take [default: the server's setting]
    #[arg(long, value_name = "DURATION", value_parser = length, allow_hyphen_values = true, help_heading = "Volumes")]
    pub(crate) item_operation_timeout: Option<GoDuration>,
}

impl RestoreFlags {
    /// The spec with the given flags only. The caller sets the backup or the schedule.
    pub(crate) fn spec(&self) -> RestoreSpec {
        let status = RestoreStatusSpec {
            included_resources: given(&self.status_include_resources),
            excluded_resources: given(&self.status_exclude_resources),
        };
        let parallel = self.parallel_files_download.filter(|count| *count > 0);
        let uploader = UploaderConfigForRestore {
            write_sparse_files: self.write_sparse_files,
            parallel_files_download: parallel.map(i64::from),
        };
        RestoreSpec {
            included_namespaces: given(&self.include_namespaces),
            excluded_namespaces: given(&self.exclude_namespaces),
            included_resources: given(&self.include_resources),
            excluded_resources: given(&self.exclude_resources),
            namespace_mapping: self.namespace_mappings.as_ref().map(|MappingArg(map)| map.clone()),
            include_cluster_resources: self.include_cluster_resources,
            label_selector: self.selector.as_ref().map(|SelectorArg(selector)| selector.clone()),
            or_label_selectors: self.or_selector.as_ref().map(|OrSelectorArg(selectors)| selectors.clone()),
            resource_policy: config_map(self.resource_policies_configmap.as_ref()),
            existing_resource_policy: self.existing_resource_policy.map(|policy| match policy {
                Existing::None => ExistingResourcePolicy::None,
                Existing::Update => ExistingResourcePolicy::Update,
            }),
            restore_status: (status != RestoreStatusSpec::default()).then_some(status),
            preserve_node_ports: self.preserve_nodeports,
            resource_modifier: config_map(self.resource_modifier_configmap.as_ref()),
            restore_pvs: self.restore_volumes,
            uploader_config: (uploader != UploaderConfigForRestore::default()).then_some(uploader),
            item_operation_timeout: GoDuration::set(self.item_operation_timeout),
            ..RestoreSpec::default()
        }
    }
}
