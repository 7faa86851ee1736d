//! `lifeboat plugin …`: Velero plugins of the server. Images of plugins are init containers of the server's Deployment;
//! the server reports the plugins found in them. Images added with stock `velero plugin …` are handled too, and vice
//! versa.

pub(crate) mod add;
mod deployment;
pub(crate) mod get;
pub(crate) mod remove;

use crate::error::CliError;
use crate::settings::Settings;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Add an image of plugins to the server
    Add(add::Args),
    /// List plugins, including built-in ones, and why others are not used
    Get(get::Args),
    /// Remove an image of plugins from the server
    Remove(remove::Args),
}

pub(crate) async fn run(settings: &Settings, command: Command) -> Result<(), CliError> {
    match command {
        Command::Add(args) => add::run(settings, &args).await,
        Command::Get(args) => get::run(settings, &args).await,
        Command::Remove(args) => remove::run(settings, &args).await,
    }
}

/// Whether to wait for the server, and for how long.
#[derive(clap::Args)]
pub(crate) struct WaitArgs {
    /// Wait until the new server runs
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    wait: bool,
    /// Seconds to wait
    #[arg(long, default_value_t = 300, value_name = "SECONDS", value_parser = crate::args::seconds)]
    timeout: u64,
    /// Accepted for compatibility and ignored: a restart of the server loses no work, so no confirmation is asked for
    #[arg(long, hide = true)]
    confirm: bool,
}
