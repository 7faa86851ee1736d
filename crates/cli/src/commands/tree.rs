//! The command tree for clap. The arguments of each command are in its own file.

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
    /// Back up the cluster's objects and volumes; list, show and delete backups
    #[command(subcommand)]
    Backup(commands::backup::Command),
    /// Restore objects and volumes from a backup; list, show and delete restores
    #[command(subcommand)]
    Restore(commands::restore::Command),
    /// Back up on a schedule
    #[command(subcommand)]
    Schedule(commands::schedule::Command),
    /// List objects: `get backups` is `backup get`
    #[command(subcommand)]
    Get(commands::verbs::Get),
    /// Create objects: `create backup` is `backup create`
    #[command(subcommand)]
    Create(Box<commands::verbs::Create>),
    /// Show objects in full: `describe backup` is `backup describe`
    #[command(subcommand)]
    Describe(commands::verbs::Describe),
    /// Delete objects: `delete backup` is `backup delete`
    #[command(subcommand)]
    Delete(commands::verbs::Delete),
    /// Manage backup storage locations: where backups are stored
    #[command(subcommand, visible_alias = "bsl")]
    BackupLocation(Box<commands::backup_location::Command>),
    /// Manage volume snapshot locations: where plugins take snapshots of volumes
    #[command(subcommand, visible_alias = "vsl")]
    SnapshotLocation(Box<commands::snapshot_location::Command>),
    /// Manage the repositories of volume data
    #[command(subcommand)]
    Repo(commands::repo::Command),
    /// Manage the server's plugins
    #[command(subcommand)]
    Plugin(commands::plugin::Command),
    /// Manage the password that protects volume data
    #[command(subcommand)]
    RepositoryPassword(commands::repository_password::Command),
    /// List the files in the volumes of a backup, and restore single files
    #[command(subcommand)]
    Volume(commands::volume::Command),
    /// Use a repository directly, without a cluster: back up, restore, forget, prune, check
    Repository(Box<commands::repository::Args>),
    /// Read a kopia repository, such as Velero's, without a cluster: list, restore, check; nothing is written to it
    Kopia(Box<commands::kopia::Args>),
    /// Print the custom resource definitions
    Crds(commands::crds::Args),
    /// Run the server (used by the Deployment)
    Server(Box<commands::server::Args>),
    /// Move the data of one volume (used by a mover's Job)
    #[command(hide = true)]
    Mover(commands::mover::Args),
    /// Wait for the data of a restored pod (used by its init container)
    #[command(hide = true)]
    RestoreWait(commands::restore_wait::Args),
    /// Back up and restore single workloads with the kinds of Stash's API; also as `kubectl stash`
    Stash(Box<commands::stash::Args>),
    /// Print a shell's completion script
    Completion(commands::completion::Args),
}

/// The whole command tree, under the name by which the program was called.
pub fn command() -> clap::Command {
    let as_plugin = std::env::args_os().next().is_some_and(|name| {
        std::path::Path::new(&name).file_stem().is_some_and(|stem| stem == "kubectl-lifeboat")
    });
    let command = Cli::command();
    // `kubectl lifeboat` runs this program as `kubectl-lifeboat`; help must show what the user typed.
    if as_plugin { command.bin_name("kubectl lifeboat") } else { command }
}
