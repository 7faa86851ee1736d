//! The command tree as clap sees it. Each command keeps its own arguments in its own file.

use clap::{CommandFactory, Parser, Subcommand};

use crate::args::Global;
use crate::commands;

/// Backup and recovery for applications on Kubernetes
#[derive(Parser)]
#[command(name = "lifeboat", version, propagate_version = true, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Install the server into a cluster
    Install(Box<commands::install::Args>),
    /// Remove the server from a cluster; backups and custom resources stay
    Uninstall(commands::uninstall::Args),
    /// Print the version of this program and of the server
    Version(commands::version::Args),
    /// Back up objects of the cluster, and work with the backups that there are
    #[command(subcommand)]
    Backup(commands::backup::Command),
    /// Restore objects from a backup, and work with the restores that there are
    #[command(subcommand)]
    Restore(commands::restore::Command),
    /// Back up at regular times
    #[command(subcommand)]
    Schedule(commands::schedule::Command),
    /// List objects: `get backups` is `backup get`
    #[command(subcommand)]
    Get(commands::verbs::Get),
    /// Make objects: `create backup` is `backup create`
    #[command(subcommand)]
    Create(Box<commands::verbs::Create>),
    /// Show objects in full: `describe backup` is `backup describe`
    #[command(subcommand)]
    Describe(commands::verbs::Describe),
    /// Delete objects: `delete backup` is `backup delete`
    #[command(subcommand)]
    Delete(commands::verbs::Delete),
    /// Work with backup storage locations: where backups are kept
    #[command(subcommand, visible_alias = "bsl")]
    BackupLocation(Box<commands::backup_location::Command>),
    /// Work with volume snapshot locations: where plugins keep snapshots of volumes
    #[command(subcommand, visible_alias = "vsl")]
    SnapshotLocation(Box<commands::snapshot_location::Command>),
    /// Work with the repositories of volume data
    #[command(subcommand)]
    Repo(commands::repo::Command),
    /// Work with the server's Velero plugins
    #[command(subcommand)]
    Plugin(commands::plugin::Command),
    /// Work with the password that protects volume data
    #[command(subcommand)]
    RepositoryPassword(commands::repository_password::Command),
    /// Look into the volumes of a backup, and bring single files of them back
    #[command(subcommand)]
    Volume(commands::volume::Command),
    /// Work with a repository of volume data, without a cluster: back up, restore, forget, prune, check
    Repository(Box<commands::repository::Args>),
    /// Print the custom resource definitions
    Crds(commands::crds::Args),
    /// Run the server (what the Deployment does)
    Server(Box<commands::server::Args>),
    /// Move the data of one volume (what the Job of a mover does)
    #[command(hide = true)]
    Mover(commands::mover::Args),
    /// Wait for the data of a restored pod (what its init container does)
    #[command(hide = true)]
    RestoreWait(commands::restore_wait::Args),
    /// Print a shell's completion script
    Completion(commands::completion::Args),
}

/// The whole command tree, under the name the program was called by.
pub fn command() -> clap::Command {
    let as_plugin = std::env::args_os().next().is_some_and(|name| {
        std::path::Path::new(&name).file_stem().is_some_and(|stem| stem == "kubectl-lifeboat")
    });
    let command = Cli::command();
    // `kubectl lifeboat` runs this program as `kubectl-lifeboat`; help must show what the user typed.
    if as_plugin { command.bin_name("kubectl lifeboat") } else { command }
}
