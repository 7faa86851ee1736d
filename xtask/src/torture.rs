//! `cargo xtask torture`: the kill harness for a given number of cycles. In each cycle a process works on a repository
//! through a store with faults and may be killed at a random moment; afterwards every acknowledged snapshot must be
//! complete (docs/reliability.md). The harness itself is `e2e/src/torture.rs`; the test command runs 25 cycles.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;

use crate::{run, tools};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Number of cycles, in each of which a process is killed or storage fails
    #[arg(long, default_value_t = 100)]
    cycles: u64,
    /// Repeat the run with this seed; by default a new one is made and printed
    #[arg(long)]
    seed: Option<u64>,
    /// Keep the repositories; after a failure they are kept anyway
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

/// Short enough to type again.
fn new_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(now.subsec_nanos()) % 1_000_000
}
