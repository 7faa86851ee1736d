//! `cargo xtask test`: every test, least powerful first, with one closing line. It brings up what it needs. Each part
//! can be run alone; `volumes`, `stash`, `interop`, `upgrade` and `soak` run only when named.

mod ahead;
mod api_proxy;
mod box_only;
mod compiled;
mod harness;
mod interop;
mod on_cluster;
mod part;
mod plugins;
mod repository;
mod tally;
mod times;
mod upgrade;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::target::TargetArgs;
use part::Run;
use tally::Tally;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Parts to run; without one, all but volumes, stash, interop, upgrade and soak
    #[arg(value_enum)]
    parts: Vec<Part>,
    #[command(flatten)]
    target: TargetArgs,
    /// Of box, repository, plugins, api, e2e, volumes, stash, interop, upgrade and soak only tests whose name contains this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// For the part upgrade: the older build of Lifeboat, static, that is replaced in the middle of its work
    #[arg(long, value_name = "PATH")]
    old_binary: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Format, clippy, directions, generated files
    Lint,
    /// Everything that needs no cluster
    Unit,
    /// The box starts and stops without leaving traces, and survives kill -9
    Box,
    /// Object storage against a real S3 server
    Storage,
    /// Repositories beside genuine restic; needs no cluster
    Repository,
    /// The plugin host beside plugins in Go; needs no cluster
    Plugins,
    /// Schemas and admission policies against a real API server
    Api,
    /// Real pods on a real cluster
    E2e,
    /// Volumes with all their faults, on the box (long)
    Volumes,
    /// Backups of workloads by Stash's API, on the box
    Stash,
    /// Backups of Lifeboat and of genuine Velero, each restored by the other
    Interop,
    /// Backups, Restores and movers that an older build began (--old-binary), finished by the new one, on the box
    Upgrade,
    /// Faults again and again (long)
    Soak,
}

const DEFAULT: [Part; 8] =
    [Part::Lint, Part::Unit, Part::Repository, Part::Plugins, Part::Box, Part::Storage, Part::Api, Part::E2e];

pub(crate) fn run(args: &Args) -> Result<()> {
    let parts = if args.parts.is_empty() { DEFAULT.to_vec() } else { args.parts.clone() };
    let old_binary = upgrade::old_binary(&parts, args.old_binary.as_deref())?;
    let mut run = Run::new(args.target.clone(), args.filter.clone(), old_binary);
    run.make_ahead(&parts);
    let mut total = Tally::default();
    for part in parts {
        let start = Instant::now();
        println!("\n== {}", name(part));
        let tally = match run_part(part, &mut run) {
            Ok(tally) => tally,
            Err(error) => {
                // A part that could not be run counts as one failure; the other parts are still run.
                eprintln!("{}: {error:#}", name(part));
                Tally { passed: 0, failed: 1 }
            }
        };
        let time = start.elapsed();
        println!("== {}: {tally} in {} s", name(part), time.as_secs());
        run.times.part(&name(part), time);
        total = total + tally;
    }
    if total.failed == 0
        && let Err(error) = run.check_filter()
    {
        eprintln!("{error:#}");
        total.failed += 1;
    }
    println!("\n{}\n\n{total}", run.times);
    if let Err(error) = run.finish() {
        eprintln!("the machine was not left as it was found: {error:#}");
        total.failed += 1;
        println!("\n{total}");
    }
    if total.failed > 0 {
        bail!("tests failed");
    }
    if total.is_nothing() {
        bail!("no test ran");
    }
    Ok(())
}

fn run_part(part: Part, run: &mut Run) -> Result<Tally> {
    match part {
        Part::Lint => run.lint(),
        Part::Unit => run.unit(),
        Part::Box => run.machine(),
        Part::Storage => run.storage(),
        Part::Repository => run.repository(),
        Part::Plugins => run.plugins(),
        Part::Api => run.api(),
        Part::E2e => run.e2e(),
        Part::Volumes => run.volumes(),
        Part::Stash => run.stash(),
        Part::Interop => run.interop(),
        Part::Upgrade => run.upgrade(),
        Part::Soak => run.soak(),
    }
}

fn name(part: Part) -> String {
    part.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
