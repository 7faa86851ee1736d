//! `lifeboat plugin …`: Velero plugins of the server. Images of plugins are init containers of its Deployment; which plugins
//! came of them the server says. What stock `velero plugin …` did is seen here, and the other way round.

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

/// Whether to wait for the server, and how long.
#[derive(clap::Args)]
pub(crate) struct WaitArgs {
    /// Wait until the new server runs
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    wait: bool,
    /// Seconds to wait
    #[arg(long, default_value_t = 300, value_name = "SECONDS", value_parser = crate::args::seconds)]
    timeout: u64,
    /// Accepted and without effect: a restart loses no work here, so nothing is asked
    #[arg(long, hide = true)]
    confirm: bool,
}
