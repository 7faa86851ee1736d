//! `cargo xtask torture`: the kill harness for a given number of cycles. In each cycle a process works on a repository
//! through a store with faults and may be killed at a random moment; afterwards every acknowledged snapshot must be
//! complete (docs/reliability.md). The harness itself is `e2e/src/torture.rs`; the test command runs 25 cycles.

use std::fs;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::s3_server::{self, S3Server};
use crate::{run, tools};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Number of cycles, in each of which a process is killed or storage fails
    #[arg(long, default_value_t = 100)]
    cycles: u64,
    /// Repeat the run with this seed; by default a new one is made and printed
    #[arg(long)]
    seed: Option<u64>,
    /// Where the repositories are
    #[arg(long, value_enum, default_value_t = Place::Local)]
    place: Place,
    /// Keep the repositories; after a failure they are kept anyway
    #[arg(long)]
    keep: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Place {
    /// A directory
    Local,
    /// The box's S3 server, on this machine, without the box
    S3,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut command = run::cargo();
    command.args(["test", "--quiet", "--package", "lifeboat-e2e", "--features", "torture"]);
    command.args(["--test", "e2e", "torture::", "--", "--nocapture"]);
    command.env("LIFEBOAT_TORTURE_CYCLES", args.cycles.to_string());
    command.env("LIFEBOAT_TORTURE_SEED", args.seed.unwrap_or_else(new_seed).to_string());
    if args.keep {
        command.env("LIFEBOAT_TORTURE_KEEP", "yes");
    }
    if std::env::var_os("LIFEBOAT_RESTIC").is_none() {
        command.env("LIFEBOAT_RESTIC", tools::restic()?);
    }
    let storage = match args.place {
        Place::Local => None,
        Place::S3 => Some(Storage::start()?),
    };
    if let Some(Storage { server, .. }) = &storage {
        let location = format!("s3:http://{}/{}", server.address(), s3_server::BUCKET);
        command.envs(server.environment()).env("LIFEBOAT_TORTURE_LOCATION", location);
    }
    let outcome = run::run(&mut command);
    storage.map_or(Ok(()), |storage| storage.end(args.keep || outcome.is_err()))?;
    outcome
}

/// An S3 server and its data.
struct Storage {
    server: S3Server,
    directory: PathBuf,
}

impl Storage {
    fn start() -> Result<Self> {
        let directory = run::target_directory()?.join("torture-s3");
        if directory.exists() {
            fs::remove_dir_all(&directory).context("cannot remove the data of the last run")?;
        }
        fs::create_dir_all(&directory)?;
        Ok(Self { server: S3Server::start(&directory)?, directory })
    }

    fn end(self, keep: bool) -> Result<()> {
        drop(self.server);
        if keep {
            eprintln!("the S3 server's data is kept in {} until the next run", self.directory.display());
            return Ok(());
        }
        fs::remove_dir_all(&self.directory).context("cannot remove the S3 server's data")
    }
}

/// Short enough to type again.
fn new_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(now.subsec_nanos()) % 1_000_000
}
