//! The server's flags for plugins.

use std::path::PathBuf;
use std::time::Duration;

use lifeboat_operator::PluginSettings;
use lifeboat_plan::install::CREDENTIALS_FILE;

use super::duration;

#[derive(clap::Args)]
pub(super) struct PluginArgs {
    /// Directory with the programs of plugins
    #[arg(
        long = "plugin-dir",
        value_name = "DIRECTORY",
        default_value = "/plugins",
        overrides_with = "directory"
    )]
    directory: PathBuf,
    /// How long one call of a plugin may take; calls for snapshots and volumes have
    /// --default-item-operation-timeout
    #[arg(long = "plugin-call-timeout", default_value = "10m0s", value_parser = duration)]
    call_timeout: Duration,
    /// File with cloud credentials for plugins, if it exists
    #[arg(long = "plugin-credentials-file", value_name = "FILE", default_value = CREDENTIALS_FILE, overrides_with = "credentials_file")]
    credentials_file: PathBuf,
}

impl PluginArgs {
    pub(super) fn settings(self, log_level: &str) -> PluginSettings {
        PluginSettings {
            directory: self.directory,
            credentials_file: Some(self.credentials_file).filter(|file| file.exists()),
            log_level: log_level.to_owned(),
            environment: std::env::vars_os().collect(),
            call_timeout: self.call_timeout,
        }
    }
}
