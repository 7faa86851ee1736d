//! The server's flags about plugins.

use std::path::PathBuf;

use lifeboat_operator::PluginSettings;

#[derive(clap::Args)]
pub(super) struct PluginArgs {
    /// Directory whose programs are Velero plugins
    #[arg(long, value_name = "DIRECTORY", default_value = "/plugins", overrides_with = "plugin_dir")]
    plugin_dir: PathBuf,
}

impl PluginArgs {
    pub(super) fn settings(self, log_level: &str) -> PluginSettings {
        PluginSettings {
            directory: self.plugin_dir,
            log_level: log_level.to_owned(),
            environment: std::env::vars_os().collect(),
        }
    }
}
