//! Processes are killed at random while they work on a repository, with a faulty store: nothing is lost. The test
//! command runs a few cycles of one seed; `cargo xtask torture` runs more, of any seed.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)] // tests end by panicking

use std::path::Path;

use lifeboat_e2e::torture::{Settings, run};

/// The number of cycles in the test command.
const CYCLES: u64 = 25;
const SEED: u64 = 8; // its first cycles have kills in backup, forget and both kinds of prune

#[test]
fn whatever_is_killed_and_whatever_fails_no_acknowledged_snapshot_is_lost() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let directory = tempfile::tempdir_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    let settings = Settings {
        cycles: number("LIFEBOAT_TORTURE_CYCLES").unwrap_or(CYCLES),
        seed: number("LIFEBOAT_TORTURE_SEED").unwrap_or(SEED),
        directory: directory.path().to_owned(),
        location: std::env::var("LIFEBOAT_TORTURE_LOCATION").ok(),
        worker: env!("CARGO_BIN_EXE_lifeboat-torture-worker").into(),
    };
    eprintln!("seed {}, {} cycles", settings.seed, settings.cycles);
    let outcome = run(&settings);
    if outcome.is_err() || std::env::var_os("LIFEBOAT_TORTURE_KEEP").is_some() {
        eprintln!("everything is kept in {}", directory.keep().display());
    }
    match outcome {
        Ok(summary) => eprintln!("{summary}"),
        Err(error) => panic!("{error:#}"),
    }
}
