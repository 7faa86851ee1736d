//! `cargo xtask box`: a real two-node Kubernetes cluster on this Linux machine, from packages alone. `docs/box.md` is
//! for its users, `box/README.md` for those who change it. Demo and tests use the functions at the end.
mod archive;
mod bare;
mod certificates;
mod cgroup;
mod components;
mod config;
mod down;
mod environment;
mod firewall;
mod images;
mod kubectl;
mod layout;
mod leftovers;
mod lock;
mod logs;
mod mounts;
mod network;
mod packages;
mod ports;
mod preflight;
mod process;
pub(crate) mod programs;
mod progress;
mod state;
mod status;
mod subnet;
mod supervisor;
mod system;
mod up;

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Subcommand, ValueEnum};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start the box; installs and builds what is missing, repairs what was killed
    Up,
    /// Stop the box and undo every change it made to this machine
    Down,
    /// Show what runs; exit code 1 when something does not
    Status {
        #[arg(short, long, default_value = "table")]
        output: Output,
    },
    /// Print `export` lines: eval "$(cargo xtask box env)"
    Env,
    /// Run the box's kubectl against the box
    Kubectl {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Import image archives (docker-archive or OCI layout) into both nodes
    Load {
        #[arg(required = true)]
        archives: Vec<PathBuf>,
    },
    /// List the logs, or print the log of one component
    Logs {
        component: Option<String>,
        #[arg(short, long)]
        follow: bool,
    },
    /// Stop one component (a kubelet for a lost node) until it is started again
    Stop { component: String },
    /// Start a component that was stopped
    Start { component: String },
    /// A second API server with nothing in it, for tests of schemas
    Apiserver {
        #[command(subcommand)]
        command: ApiServer,
    },
    /// Build a tool for tests and print its path: helm
    Tool { name: String },
}

#[derive(Subcommand)]
enum ApiServer {
    Up,
    Down,
}

#[derive(Clone, ValueEnum)]
enum Output {
    Table,
    Json,
}

pub(crate) fn run(args: Args) -> Result<()> {
    match args.command {
        Command::Up => up(),
        Command::Down => down(),
        Command::Status { output } => show_status(&output),
        Command::Env => {
            println!("{}", environment::export_lines(&environment()?));
            Ok(())
        }
        Command::Kubectl { arguments } => {
            let error = kubectl::command(&running()?).args(arguments).exec();
            Err(error).context("cannot start the box's kubectl")
        }
        Command::Load { archives } => load(&archives),
        Command::Logs { component, follow } => logs::logs(component.as_deref(), follow),
        Command::Stop { component } => supervisor::stop(&component),
        Command::Start { component } => supervisor::start_again(&component),
        Command::Apiserver { command: ApiServer::Up } => apiserver_up(),
        Command::Apiserver { command: ApiServer::Down } => bare::down(),
        Command::Tool { name } => {
            println!("{}", tool(&name)?.display());
            Ok(())
        }
    }
}

fn show_status(output: &Output) -> Result<()> {
    let status = status::status()?;
    match output {
        Output::Table => print!("{}", status.table()),
        Output::Json => println!("{}", serde_json::to_string_pretty(&status)?),
    }
    std::process::exit(i32::from(!status.healthy));
}

fn running() -> Result<state::State> {
    preflight::machine()?;
    state::State::load()?.context("there is no box on this machine; start it with `cargo xtask box up`")
}

/// Starts a box, or repairs or replaces the existing one, so that it runs and is ready.
pub(crate) fn up() -> Result<()> {
    up::up()
}

/// Stops the box; does nothing if there is none.
pub(crate) fn down() -> Result<()> {
    down::down()
}

/// Whether a box exists with every process running and both nodes ready.
pub(crate) fn is_up() -> bool {
    status::status().is_ok_and(|status| status.healthy)
}

/// Imports image archives into both nodes and prints the names of the images.
pub(crate) fn load(archives: &[PathBuf]) -> Result<()> {
    running()?;
    for archive in archives {
        for name in images::load(archive)? {
            println!("{name}");
        }
    }
    Ok(())
}

/// The variables that `env` prints, as a map.
pub(crate) fn environment() -> Result<BTreeMap<String, String>> {
    environment::environment()
}

/// Builds a tool for tests (`helm`) if it is not in the cache, and returns its path.
pub(crate) fn tool(name: &str) -> Result<PathBuf> {
    programs::tool(name)
}

/// Builds the missing programs that `up` starts; returns the directory of the Kubernetes programs.
pub(crate) fn make_programs() -> Result<PathBuf> {
    preflight::machine()?;
    packages::install()?;
    programs::for_box()?.remove("kube").context("the box has programs of Kubernetes")
}

/// Starts the second API server; `environment` then contains LIFEBOAT_BARE_KUBECONFIG.
pub(crate) fn apiserver_up() -> Result<()> {
    bare::up(&running()?)
}
