//! `lifeboat kopia`: reads a kopia repository without a cluster. This file lists the commands and opens the repository;
//! output, progress and exit codes are those of `lifeboat repository`.

mod arguments;
mod check;
mod ls;
mod restore;
mod select;
mod snapshots;

pub(crate) use arguments::COMMON_HEADING;

use lifeboat_kopia::{Error, Options, Repository};

use super::repository::arguments::NoCluster;
use super::repository::password::Ask;
use super::repository::session::{self, Session};
use super::repository::settings::PasswordSource;
use super::repository::{message, output, run_in, signals, variables};
use crate::error::CliError;
use arguments::CommonArgs;

/// How often a password may be entered on a terminal.
const TRIES: usize = 3;

/// The arguments of `lifeboat kopia`.
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true, args_override_self = true)]
pub(crate) struct Args {
    #[command(flatten)]
    _cluster: NoCluster,
    #[command(flatten)]
    common: CommonArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List snapshots
    Snapshots(snapshots::Args),
    /// List the files of a snapshot
    Ls(ls::Args),
    /// Restore a snapshot, or a part of it, to a directory, or the content of a block device to a device
    Restore(Box<restore::Args>),
    /// Check the repository for errors
    Check(check::Args),
}

pub(crate) async fn run(args: Args) -> Result<(), CliError> {
    let settings = args.common.resolve(&variables())?;
    output::start_log(&settings);
    let session = Session::new(settings, signals::interruption(true)?);
    run_in(&session, Box::pin(dispatch(&session, args.command))).await
}

async fn dispatch(session: &Session, command: Command) -> Result<(), CliError> {
    match command {
        Command::Snapshots(args) => snapshots::run(session, args).await,
        Command::Ls(args) => ls::run(session, args).await,
        Command::Restore(args) => restore::run(session, *args).await,
        Command::Check(args) => check::run(session, args).await,
    }
}

/// Opens the repository; asks for the password if no flag or variable gives it.
async fn open(session: &Session) -> Result<Repository, CliError> {
    let target = &session.settings.target;
    let location = session::location(target)?;
    let opening = async { Ok(location.open(&session.open_settings()).await?) };
    let store = session.interruptible(opening).await?;
    let tries = if matches!(target.password, PasswordSource::Question) { TRIES } else { 1 };
    for number in 1.. {
        let password = session.password(target, "password for the kopia repository", Ask::Once).await?;
        let opening = Repository::open(store.clone(), &password, Options::default());
        match session.interruptible(async { Ok(opening.await) }).await? {
            Ok(repository) => return Ok(repository),
            Err(Error::WrongPassword) if number < tries => message!("wrong password, try again"),
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Cancelled.into())
}
