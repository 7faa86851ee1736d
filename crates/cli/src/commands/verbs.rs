//! Commands with the verb before the noun, as stock Velero has them too: `lifeboat get backups` is `lifeboat backup
//! get`.

use super::Command;
use crate::commands::{backup, backup_location, plugin, repo, restore, schedule, snapshot_location};
use crate::objects::get::GetArgs;

/// `lifeboat get …`
#[derive(clap::Subcommand)]
pub(crate) enum Get {
    /// List backups, as `lifeboat backup get`
    #[command(visible_alias = "backup")]
    Backups(GetArgs),
    /// List restores, as `lifeboat restore get`
    #[command(visible_alias = "restore")]
    Restores(GetArgs),
    /// List schedules, as `lifeboat schedule get`
    #[command(visible_alias = "schedule")]
    Schedules(GetArgs),
    /// List locations, as `lifeboat backup-location get`
    #[command(visible_aliases = ["backup-location", "bsl"])]
    BackupLocations(backup_location::get::Args),
    /// List volume snapshot locations, as `lifeboat snapshot-location get`
    #[command(visible_aliases = ["snapshot-location", "vsl"])]
    SnapshotLocations(GetArgs),
    /// List repositories of volume data, as `lifeboat repo get`
    #[command(visible_alias = "repo")]
    Repos(GetArgs),
    /// List plugins, as `lifeboat plugin get`
    #[command(visible_alias = "plugin")]
    Plugins(plugin::get::Args),
}

/// `lifeboat create …`
#[derive(clap::Subcommand)]
pub(crate) enum Create {
    /// Create a backup, as `lifeboat backup create`
    Backup(Box<backup::create::Args>),
    /// Restore from a backup, as `lifeboat restore create`
    Restore(Box<restore::create::Args>),
    /// Create a schedule, as `lifeboat schedule create`
    Schedule(Box<schedule::create::Args>),
    /// Create a location, as `lifeboat backup-location create`
    #[command(visible_alias = "bsl")]
    BackupLocation(Box<backup_location::create::Args>),
    /// Create a volume snapshot location, as `lifeboat snapshot-location create`
    #[command(visible_alias = "vsl")]
    SnapshotLocation(Box<snapshot_location::create::Args>),
}

/// `lifeboat describe …`
#[derive(clap::Subcommand)]
pub(crate) enum Describe {
    /// Show backups, as `lifeboat backup describe`
    #[command(visible_alias = "backup")]
    Backups(backup::describe::Args),
    /// Show restores, as `lifeboat restore describe`
    #[command(visible_alias = "restore")]
    Restores(restore::describe::Args),
    /// Show schedules, as `lifeboat schedule describe`
    #[command(visible_alias = "schedule")]
    Schedules(schedule::describe::Args),
}

/// `lifeboat delete …`
#[derive(clap::Subcommand)]
pub(crate) enum Delete {
    /// Delete backups, as `lifeboat backup delete`
    #[command(visible_alias = "backups")]
    Backup(backup::delete::Args),
    /// Delete the records of restores, as `lifeboat restore delete`
    #[command(visible_alias = "restores")]
    Restore(restore::delete::Args),
    /// Delete schedules, as `lifeboat schedule delete`
    #[command(visible_alias = "schedules")]
    Schedule(schedule::delete::Args),
    /// Delete locations, as `lifeboat backup-location delete`
    #[command(visible_aliases = ["backup-locations", "bsl"])]
    BackupLocation(backup_location::delete::Args),
    /// Delete volume snapshot locations, as `lifeboat snapshot-location delete`
    #[command(visible_aliases = ["snapshot-locations", "vsl"])]
    SnapshotLocation(snapshot_location::delete::Args),
}

impl From<Get> for Command {
    fn from(get: Get) -> Self {
        match get {
            Get::Backups(args) => Self::Backup(backup::Command::Get(args)),
            Get::Restores(args) => Self::Restore(restore::Command::Get(args)),
            Get::Schedules(args) => Self::Schedule(schedule::Command::Get(args)),
            Get::Repos(args) => Self::Repo(repo::Command::Get(args)),
            Get::Plugins(args) => Self::Plugin(plugin::Command::Get(args)),
            Get::BackupLocations(args) => Self::BackupLocation(Box::new(backup_location::Command::Get(args))),
            Get::SnapshotLocations(args) => {
                Self::SnapshotLocation(Box::new(snapshot_location::Command::Get(args)))
            }
        }
    }
}

impl From<Create> for Command {
    fn from(create: Create) -> Self {
        match create {
            Create::Backup(args) => Self::Backup(backup::Command::Create(args)),
            Create::Restore(args) => Self::Restore(restore::Command::Create(args)),
            Create::Schedule(args) => Self::Schedule(schedule::Command::Create(args)),
            Create::BackupLocation(args) => {
                Self::BackupLocation(Box::new(backup_location::Command::Create(*args)))
            }
            Create::SnapshotLocation(args) => {
                Self::SnapshotLocation(Box::new(snapshot_location::Command::Create(*args)))
            }
        }
    }
}

impl From<Describe> for Command {
    fn from(describe: Describe) -> Self {
        match describe {
            Describe::Backups(args) => Self::Backup(backup::Command::Describe(args)),
            Describe::Restores(args) => Self::Restore(restore::Command::Describe(args)),
            Describe::Schedules(args) => Self::Schedule(schedule::Command::Describe(args)),
        }
    }
}

impl From<Delete> for Command {
    fn from(delete: Delete) -> Self {
        match delete {
            Delete::Backup(args) => Self::Backup(backup::Command::Delete(args)),
            Delete::Restore(args) => Self::Restore(restore::Command::Delete(args)),
            Delete::Schedule(args) => Self::Schedule(schedule::Command::Delete(args)),
            Delete::BackupLocation(args) => {
                Self::BackupLocation(Box::new(backup_location::Command::Delete(args)))
            }
            Delete::SnapshotLocation(args) => {
                Self::SnapshotLocation(Box::new(snapshot_location::Command::Delete(args)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rstest::rstest;

    use super::*;
    use crate::commands::Cli;

    #[rstest]
    #[case("get backups")]
    #[case("get backup b")]
    #[case("get restores -l a=b")]
    #[case("get schedule --show-labels")]
    #[case("get backup-locations")]
    #[case("get repos")]
    #[case("create backup b --include-namespaces shop --wait")]
    #[case("create schedule s --schedule @daily")]
    #[case("create restore --from-backup b")]
    #[case("create backup-location l --provider aws --bucket b")]
    #[case("describe backup b --details")]
    #[case("describe restores")]
    #[case("describe schedules")]
    #[case("delete backup b --confirm")]
    #[case("delete restore --all")]
    #[case("delete schedules s")]
    #[case("delete backup-location l")]
    fn every_verb_of_the_stock_command_line_may_stand_in_front(#[case] line: &str) {
        let arguments = std::iter::once("lifeboat").chain(line.split(' '));
        let cli = Cli::try_parse_from(arguments).map_err(|error| error.to_string()).unwrap();
        let command = match cli.command {
            Command::Get(get) => get.into(),
            Command::Create(create) => (*create).into(),
            Command::Describe(describe) => describe.into(),
            Command::Delete(delete) => delete.into(),
            _ => panic!("{line} is something else"),
        };
        let noun = line.split(' ').nth(1).unwrap().trim_end_matches('s');
        let fits = match command {
            Command::Backup(_) => noun == "backup",
            Command::Restore(_) => noun == "restore",
            Command::Schedule(_) => noun == "schedule",
            Command::BackupLocation(_) => noun == "backup-location",
            Command::Repo(_) => noun == "repo",
            _ => false,
        };
        assert!(fits, "{line}");
    }
}
