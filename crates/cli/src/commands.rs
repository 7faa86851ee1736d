//! One module for each noun (`backup`, `restore`, …), with one file for each verb below it.

pub(crate) mod backup;
pub(crate) mod backup_location;
pub(crate) mod completion;
pub(crate) mod crds;
mod describe;
pub(crate) mod install;
pub(crate) mod kopia;
pub(crate) mod mover;
pub(crate) mod plugin;
pub(crate) mod repo;
pub(crate) mod repository;
pub(crate) mod repository_password;
pub(crate) mod restore;
pub(crate) mod restore_wait;
pub(crate) mod schedule;
pub(crate) mod server;
pub(crate) mod snapshot_location;
pub(crate) mod stash;
mod tree;
pub(crate) mod uninstall;
pub(crate) mod verbs;
pub(crate) mod version;
pub(crate) mod volume;

use crate::error::CliError;
use crate::settings::Settings;

pub use tree::command;
pub(crate) use tree::{Cli, Command};

pub(crate) async fn run(cli: Cli) -> Result<(), CliError> {
    let settings = Settings::new(cli.global);
    let command = match cli.command {
        Command::Get(get) => get.into(),
        Command::Create(create) => (*create).into(),
        Command::Describe(describe) => describe.into(),
        Command::Delete(delete) => delete.into(),
        other => other,
    };
    match command {
        Command::Install(args) => install::run(&settings, &args).await,
        Command::Uninstall(args) => uninstall::run(&settings, args).await,
        Command::Version(args) => version::run(&settings, args).await,
        Command::Backup(command) => backup::run(&settings, command).await,
        Command::Restore(command) => restore::run(&settings, command).await,
        Command::Schedule(command) => schedule::run(&settings, command).await,
        Command::BackupLocation(command) => backup_location::run(&settings, *command).await,
        Command::SnapshotLocation(command) => snapshot_location::run(&settings, *command).await,
        Command::Repo(command) => repo::run(&settings, command).await,
        Command::Plugin(command) => plugin::run(&settings, command).await,
        Command::RepositoryPassword(command) => repository_password::run(&settings, command).await,
        Command::Repository(args) => repository::run(*args).await,
        Command::Kopia(args) => kopia::run(*args).await,
        Command::Crds(args) => crds::run(&args),
        Command::Server(args) => Box::pin(server::run(settings, *args)).await,
        Command::Volume(command) => Box::pin(volume::run(&settings, command)).await,
        Command::Mover(args) => mover::run(args).await,
        Command::RestoreWait(args) => restore_wait::run(args).await,
        Command::Stash(args) => Box::pin(stash::run(&settings, args.command)).await,
        Command::Completion(args) => completion::run(&args),
        // These were converted into the noun's command above.
        Command::Get(_) | Command::Create(_) | Command::Describe(_) | Command::Delete(_) => Ok(()),
    }
}
