//! The kill harness. Each cycle, a process of its own does something to a repository through a store that misbehaves, and
//! is killed at a random moment, or not. Afterwards, without faults, every snapshot that was ever acknowledged and not
//! forgotten on purpose must be there and whole. `tests/torture.rs` calls `run`; `src/bin/torture_worker.rs` calls
//! `work`.
//!
//! A seed gives the same operations, faults and moments of death again. What a process was doing when a clock ended it
//! differs from run to run; a death at the k-th request does not.

mod chaos;
mod child;
mod cycle;
mod ledger;
mod place;
mod schedule;
mod summary;
mod task;
mod verify;
mod worker;

pub use summary::Summary;
pub use task::Task;
pub use worker::work;

use std::path::PathBuf;

use anyhow::{Context, Result};

use cycle::Harness;

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    pub cycles: u64,
    pub seed: u64,
    /// The working directory; it exists and is empty.
    pub directory: PathBuf,
    /// Where the repositories are, in restic's syntax, such as `s3:http://HOST/BUCKET`; by default in the working directory.
    pub location: Option<String>,
    /// The program of `src/bin/torture_worker.rs`.
    pub worker: PathBuf,
}

/// After this many cycles a progress line is printed.
const PROGRESS_CYCLES: u64 = 25;

/// Runs all cycles; an error names the cycle and what was lost or broken.
pub fn run(settings: &Settings) -> Result<Summary> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let mut harness = Harness::new(settings).await?;
        for cycle in 1..=settings.cycles {
            let checked = async {
                harness.cycle(cycle).await?;
                harness.verify().await
            };
            checked.await.with_context(|| format!("seed {}, cycle {cycle}", settings.seed))?;
            if cycle % PROGRESS_CYCLES == 0 {
                let (kept, seconds) = (harness.ledger.0.len(), harness.summary.took.as_secs());
                eprintln!("{cycle} cycles in {seconds} s, {kept} snapshots, all of them whole");
            }
        }
        Ok(harness.summary)
    })
}
