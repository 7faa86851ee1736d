//! `cargo xtask torture`: the kill harness for as many cycles as asked for. Each cycle a process works on a repository
//! through a store that misbehaves, is killed at a random moment or not, and afterwards every acknowledged snapshot
//! must be whole (docs/reliability.md). The harness itself is `e2e/src/torture.rs`; the test command runs 25 cycles.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;

use crate::{run, tools};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How often something is killed or fails
    #[arg(long, default_value_t = 100)]
    cycles: u64,
    /// Repeats the run of this seed; without it, a new one is made and printed
    #[arg(long)]
    seed: Option<u64>,
    /// Leave the repositories where they are; after a failure they stay anyway
    #[arg(long)]
    keep: bool,
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
    run::run(&mut command)
}

/// Short enough to be typed again.
fn new_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(now.subsec_nanos()) % 1_000_000
}
