//! The server's flags about plugins.

use std::path::PathBuf;
use std::time::Duration;

use lifeboat_operator::PluginSettings;
use lifeboat_plan::install::CREDENTIALS_FILE;

use super::duration;

#[derive(clap::Args)]
pub(super) struct PluginArgs {
    /// Directory whose programs are Velero plugins
    #[arg(long, value_name = "DIRECTORY", default_value = "/plugins", overrides_with = "plugin_dir")]
    plugin_dir: PathBuf,
    /// How long one call of a plugin may take; snapshots and volumes have --default-item-operation-timeout
    #[arg(long, default_value = "10m0s", value_parser = duration)]
    plugin_call_timeout: Duration,
    /// File with cloud credentials that plugins are told of, where it exists
    #[arg(long, value_name = "FILE", default_value = CREDENTIALS_FILE, overrides_with = "plugin_credentials_file")]
    plugin_credentials_file: PathBuf,
}

impl PluginArgs {
    pub(super) fn settings(self, log_level: &str) -> PluginSettings {
        PluginSettings {
            directory: self.plugin_dir,
            credentials_file: Some(self.plugin_credentials_file).filter(|file| file.exists()),
            log_level: log_level.to_owned(),
            environment: std::env::vars_os().collect(),
            call_timeout: self.plugin_call_timeout,
        }
    }
}
