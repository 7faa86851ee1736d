//! `lifeboat repository`: restic's commands on a repository, without a cluster. This file lists the commands; each has
//! a file of its own. Under the name `restic` (see `crate::restic`) the program runs the same commands.

/// Prints a message on standard error. Unlike `eprintln!` it does not panic if standard error is closed: the command
/// may hold a lock.
macro_rules! message {
    ($($argument:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($argument)*);
    }};
}

pub(crate) use message;

pub(crate) mod arguments;
pub(crate) mod backup;
pub(crate) mod cache;
mod cat;
pub(crate) mod check;
mod copy;
mod diff;
mod dump;
mod find;
mod forget;
mod init;
pub(crate) mod key;
mod list;
mod lock;
pub(crate) mod ls;
pub(crate) mod migrate;
pub(crate) mod output;
pub(crate) mod password;
mod pipes;
mod prepared;
pub(crate) mod progress;
pub(crate) mod prune;
pub(crate) mod repair;
pub(crate) mod restore;
mod second;
pub(crate) mod select;
pub(crate) mod session;
pub(crate) mod settings;
pub(crate) mod signals;
mod snapshots;
pub(crate) mod source;
mod stats;
mod tag;
pub(crate) mod unlock;

pub(crate) use arguments::{COMMON_HEADING, CommonArgs};

use arguments::NoCluster;
use session::Session;
use settings::{Settings, Variables};

use std::io::ErrorKind;

use crate::error::{CliError, INTERRUPTED};
use crate::printer;

/// The arguments of `lifeboat repository`.
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true, args_override_self = true)]
pub(crate) struct Args {
    #[command(flatten)]
    _cluster: NoCluster,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Create a new repository
    Init(init::Args),
    /// Back up files, standard input or the output of a command as a new snapshot
    Backup(Box<backup::Args>),
    /// Add a prepared snapshot to the repository
    Commit(prepared::Args),
    /// Discard a prepared snapshot
    Discard(prepared::Args),
    /// Restore a snapshot, or a part of it, to a directory
    Restore(Box<restore::Args>),
    /// Write a file of a snapshot, or a folder as an archive, to standard output
    Dump(dump::Args),
    /// List snapshots
    Snapshots(snapshots::Args),
    /// List the files of a snapshot
    Ls(ls::Args),
    /// Find files in snapshots, or the files of a blob, tree or pack
    Find(find::Args),
    /// Show what changed between two snapshots
    Diff(diff::Args),
    /// Show statistics of the stored data
    Stats(stats::Args),
    /// Change the tags of snapshots
    Tag(tag::Args),
    /// Remove snapshots by a policy or by id; prune removes their data
    Forget(Box<forget::Args>),
    /// Remove data that no snapshot uses
    Prune(prune::Args),
    /// Check the repository for errors
    Check(check::Args),
    /// Repair a damaged repository
    #[command(subcommand)]
    Repair(repair::Command),
    /// Copy snapshots from another repository into this one
    Copy(copy::Args),
    /// Upgrade the repository's format
    Migrate(migrate::Args),
    /// Manage keys; each has its own password
    #[command(subcommand)]
    Key(key::Command),
    /// Remove stale locks
    Unlock(unlock::Args),
    /// Hold the repository's lock while a command runs
    Lock(lock::Args),
    /// List the objects of one type
    List(list::Args),
    /// Print an object as it is stored (for debugging)
    Cat(cat::Args),
    /// List the caches on this machine
    Cache(cache::Args),
}

impl Command {
    /// Applies what differs under the name `restic`: without paths, a pipe is the source of a backup or the target of a
    /// restore, and `list` prints no JSON.
    pub(crate) fn as_restic(&mut self) {
        match self {
            Self::Backup(args) => args.pipe_is_source = true,
            Self::Restore(args) => args.pipe_is_target = true,
            Self::List(args) => args.always_lines = true,
            _ => {}
        }
    }
}

pub(crate) async fn run(args: Args) -> Result<(), CliError> {
    run_command(args.common, args.command).await
}

/// Runs a command with the environment of the process. With --json errors are printed as JSON too, in restic's format.
pub(crate) async fn run_command(common: CommonArgs, command: Command) -> Result<(), CliError> {
    let settings = Settings::resolve(common, variables())?;
    output::start_log(&settings);
    cache::clean_up(&settings);
    // Under `lock`, signals are passed on to the command that it runs.
    let impatient = !matches!(command, Command::Lock(_));
    let session = Session::new(settings, signals::interruption(impatient)?);
    // Boxed, because the largest of the commands determines the size of every future above.
    run_in(&session, Box::pin(dispatch(&session, command))).await
}

/// Runs the work of a command in a session.
pub(crate) async fn run_in(
    session: &Session,
    work: impl Future<Output = Result<(), CliError>>,
) -> Result<(), CliError> {
    // When the output can no longer be written, the command stops as after a signal, because it may hold a lock.
    printer::stop_on_failure(session.interrupted.clone());
    let outcome = written(work.await);
    match outcome {
        Err(error) if session.is_json() && !error.is_silent() => {
            output::exit_error(&error);
            Err(CliError::restic(error.code(), ""))
        }
        other => other,
    }
}

/// The result of a command, or the error of its output.
fn written(outcome: Result<(), CliError>) -> Result<(), CliError> {
    let Some(error) = printer::failure() else { return outcome };
    if error.kind() == ErrorKind::BrokenPipe {
        // The exit code of a program that the signal PIPE ended.
        return Err(CliError::restic(128 + 13, ""));
    }
    match outcome {
        Err(other) if other.code() != INTERRUPTED => Err(other),
        _ => Err(CliError::restic(1, format!("cannot write to standard output: {error}"))),
    }
}

pub(crate) async fn dispatch(session: &Session, command: Command) -> Result<(), CliError> {
    match command {
        Command::Init(args) => init::run(session, args).await,
        Command::Backup(args) => backup::run(session, *args).await,
        Command::Commit(args) => prepared::commit(session, args).await,
        Command::Discard(args) => prepared::discard(session, args).await,
        Command::Restore(args) => restore::run(session, *args).await,
        Command::Dump(args) => dump::run(session, args).await,
        Command::Snapshots(args) => snapshots::run(session, args).await,
        Command::Ls(args) => ls::run(session, args).await,
        Command::Find(args) => find::run(session, args).await,
        Command::Diff(args) => diff::run(session, args).await,
        Command::Stats(args) => stats::run(session, args).await,
        Command::Tag(args) => tag::run(session, args).await,
        Command::Forget(args) => forget::run(session, *args).await,
        Command::Prune(args) => prune::run(session, args).await,
        Command::Check(args) => check::run(session, args).await,
        Command::Repair(command) => repair::run(session, command).await,
        Command::Copy(args) => copy::run(session, args).await,
        Command::Migrate(args) => migrate::run(session, args).await,
        Command::Key(command) => key::run(session, command).await,
        Command::Unlock(args) => unlock::run(session, args).await,
        Command::Lock(args) => lock::run(session, args).await,
        Command::List(args) => list::run(session, args).await,
        Command::Cat(args) => cat::run(session, args).await,
        Command::Cache(args) => cache::run(&session.settings, &args),
    }
}

/// The environment variables whose values are valid UTF-8.
pub(crate) fn variables() -> Variables {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}
