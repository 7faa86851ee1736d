//! `lifeboat mover`: the program that a mover's Job runs. It needs no cluster and no token: it reads its task from a
//! file and writes its result to a file.

use std::path::PathBuf;

use lifeboat_mover::program::copy_to;
use lifeboat_mover::report::RESULT_FILE;
use lifeboat_mover::run::{MoverSettings, run as carry_out};
use lifeboat_mover::task::{DIRECTORY, POD_UID};
use tracing_subscriber::EnvFilter;

use super::server::stop_on_signal;
use crate::error::CliError;
use crate::settings::readable_variables;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directory with task.json and the files that it names
    #[arg(long, value_name = "DIRECTORY", default_value = DIRECTORY)]
    task_dir: PathBuf,
    /// File that the result is written to
    #[arg(long, value_name = "FILE", default_value = RESULT_FILE)]
    result_file: PathBuf,
    /// UID of this pod, which owns the locks that are taken
    #[arg(long, value_name = "UID", env = POD_UID, default_value = "")]
    pod_uid: String,
    /// Copy this program into the directory and do nothing else: for an image with other tools
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["task_dir", "result_file"])]
    copy_to: Option<PathBuf>,
    /// Do nothing: an init container of the pod did the work, and others followed it
    #[arg(long, hide = true, conflicts_with_all = ["task_dir", "result_file", "copy_to"])]
    done: bool,
    /// Minimum level of the engine's log lines; lines of the mover's protocol are always printed
    #[arg(long, value_name = "LEVEL", default_value = "error")]
    log_level: String,
}

pub(crate) async fn run(args: Args) -> Result<(), CliError> {
    if args.done {
        return Ok(());
    }
    if let Some(directory) = &args.copy_to {
        return copy_to(directory).map_err(|error| CliError::failed("cannot bring the program along", error));
    }
    let filter = EnvFilter::try_new(&args.log_level).map_err(|error| {
        CliError::failed(format!("cannot use --log-level {:?}", args.log_level), error)
            .help("use one of error, warn, info, debug, trace")
    })?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    let stop = stop_on_signal()?;
    let pod_uid = if args.pod_uid.is_empty() { own_name() } else { args.pod_uid };
    let settings = MoverSettings {
        directory: args.task_dir,
        result_file: args.result_file,
        pod_uid,
        environment: readable_variables().collect(),
        program: own_program()?,
        output: Box::new(std::io::stdout()),
    };
    // The mover has printed its own errors.
    match carry_out(settings, stop).await {
        0 => Ok(()),
        _ => Err(CliError::ended("")),
    }
}

/// The path of the running program, at which the commands of an agent find it.
fn own_program() -> Result<PathBuf, CliError> {
    std::env::current_exe().map_err(|error| CliError::failed("cannot find the path of this program", error))
}

/// Outside of a pod, locks are owned by the machine and the process.
fn own_name() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host}-{}", std::process::id())
}
