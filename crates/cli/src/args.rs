//! The command tree as clap sees it. Each command keeps its own arguments in its own file.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use lifeboat_plan::install::DEFAULT_NAMESPACE;

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

/// Which cluster, which namespace.
#[derive(Args, Clone)]
pub(crate) struct Global {
    /// Namespace of Lifeboat's server; $VELERO_NAMESPACE is also read
    #[arg(short, long, global = true, env = "LIFEBOAT_NAMESPACE", default_value = DEFAULT_NAMESPACE, value_parser = namespace_name)]
    pub(crate) namespace: String,
    /// Context of the kubeconfig to use instead of the current one
    #[arg(long, global = true, visible_alias = "kubecontext", value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Kubeconfig file to use instead of $KUBECONFIG or ~/.kube/config
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

/// How a command prints its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Table,
    Json,
    Yaml,
}

/// How a command prints objects that have no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Json,
    Yaml,
}

/// The flag of every command that prints objects.
#[derive(Args, Clone, Copy)]
pub(crate) struct OutputArg {
    /// Format of the output
    #[arg(short, long, value_enum, default_value = "table")]
    pub(crate) output: Output,
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
    /// Print a shell's completion script
    Completion(commands::completion::Args),
}

/// A namespace's name as Kubernetes takes it.
pub(crate) fn namespace_name(text: &str) -> Result<String, String> {
    if text.len() <= 63 && is_label(text) {
        return Ok(text.to_owned());
    }
    Err("a namespace has at most 63 lower-case letters, digits and \"-\", and starts and ends with a letter or digit".to_owned())
}

/// An object's name as Kubernetes takes it.
pub(crate) fn object_name(text: &str) -> Result<String, String> {
    if text.len() <= 253 && text.split('.').all(is_label) {
        return Ok(text.to_owned());
    }
    if text.len() > 253 {
        return Err(format!("it has {} characters; a name has at most 253", text.len()));
    }
    Err("a name has lower-case letters, digits, \"-\" and \".\", and starts and ends with a letter or digit"
        .to_owned())
}

/// The name of a backup or restore that is made: its files in the bucket are called after it, and many stores take names of
/// at most 255 characters.
pub(crate) fn new_name(text: &str) -> Result<String, String> {
    const LONGEST: usize = 255 - "-csi-volumesnapshotcontents.json.gz".len();
    limited(text, LONGEST, "")
}

/// The name of a schedule: those of its backups have the time behind it.
pub(crate) fn schedule_name(text: &str) -> Result<String, String> {
    const LONGEST: usize = 255 - "-20261116010203-csi-volumesnapshotcontents.json.gz".len();
    limited(text, LONGEST, " and the time of the backup")
}

fn limited(text: &str, longest: usize, more: &str) -> Result<String, String> {
    if text.len() > longest {
        return Err(format!(
            "it has {} characters; use at most {longest}, for files in the bucket are called by the name{more}",
            text.len()
        ));
    }
    object_name(text)
}

fn is_label(text: &str) -> bool {
    let inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(inside) && !text.starts_with('-') && !text.ends_with('-')
}

/// How long to wait: seconds, or a duration as the stock command line takes it.
pub(crate) fn seconds(text: &str) -> Result<u64, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(seconds);
    }
    let wrong = || format!("{text:?} is no time; write seconds (\"90\") or a duration (\"1m30s\")");
    let parsed: lifeboat_api::common::GoDuration = text.parse().map_err(|_| wrong())?;
    u64::try_from(parsed.as_nanos()).map(|nanos| nanos.div_ceil(1_000_000_000)).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_wait_is_seconds_or_a_duration() {
        assert_eq!(seconds("90"), Ok(90));
        assert_eq!(seconds("1m30s"), Ok(90));
        assert_eq!(seconds("1500ms"), Ok(2));
        assert!(seconds("soon").unwrap_err().contains("\"soon\""));
        assert!(seconds("-5s").is_err());
    }

    #[test]
    fn a_name_that_is_too_long_is_refused_with_the_limit() {
        assert!(
            object_name(&"a".repeat(260)).unwrap_err().contains("260 characters; a name has at most 253")
        );
        assert!(new_name(&"a".repeat(220)).is_ok() && schedule_name(&"a".repeat(205)).is_ok());
        assert!(new_name(&"a".repeat(221)).unwrap_err().contains("at most 220"));
        assert!(schedule_name(&"a".repeat(244)).unwrap_err().contains("at most 205"));
    }

    #[test]
    fn names_are_judged_as_kubernetes_would() {
        assert!(namespace_name("lifeboat-2").is_ok() && object_name("a.b-c").is_ok());
        for bad in ["", "Bad", "a b", "-a", "a-", "a..b", "ünï", "../x"] {
            assert!(namespace_name(bad).is_err() && object_name(bad).is_err(), "{bad}");
        }
    }
}
