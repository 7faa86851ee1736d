//! The verb in front of the noun, as the stock command line also has it: `lifeboat get backups` is `lifeboat backup get`.

use crate::args::Command;
use crate::commands::{backup, backup_location, restore, schedule};
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
}

/// `lifeboat create …`
#[derive(clap::Subcommand)]
pub(crate) enum Create {
    /// Make a backup, as `lifeboat backup create`
    Backup(Box<backup::create::Args>),
    /// Restore from a backup, as `lifeboat restore create`
    Restore(Box<restore::create::Args>),
    /// Make a schedule, as `lifeboat schedule create`
    Schedule(Box<schedule::create::Args>),
    /// Make a location, as `lifeboat backup-location create`
    #[command(visible_alias = "bsl")]
    BackupLocation(Box<backup_location::create::Args>),
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
}

impl From<Get> for Command {
    fn from(get: Get) -> Self {
        match get {
            Get::Backups(args) => Self::Backup(backup::Command::Get(args)),
            Get::Restores(args) => Self::Restore(restore::Command::Get(args)),
            Get::Schedules(args) => Self::Schedule(schedule::Command::Get(args)),
            Get::BackupLocations(args) => Self::BackupLocation(Box::new(backup_location::Command::Get(args))),
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
        }
    }
}
