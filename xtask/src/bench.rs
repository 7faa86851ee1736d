//! `cargo xtask bench`: measures speed, always as a ratio to another product or to an older build of Lifeboat, in the same
//! run on the same machine. Each capability adds its comparison here and its table to bench/README.md.

mod baseline;
mod cluster;
mod content;
mod measure;
mod process;
mod repository;
mod scale;
mod sessions;
mod volumes;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::{CommandFactory, Subcommand};

use crate::run;
use baseline::Figure;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    comparison: Option<Comparison>,
}

#[derive(Subcommand)]
enum Comparison {
    /// The repository engine against restic and kopia
    Repository(repository::Args),
    /// The memory of the repository engine with many files, a large volume and a large index
    Scale(scale::Args),
    /// Backup and restore of objects against Velero, or against an older build of Lifeboat, on the box
    Cluster(cluster::Args),
    /// Backup and restore of volumes against Velero with its node agent and plain restic, or against an older build of
    /// Lifeboat, on the box
    Volumes(volumes::Args),
    /// Sessions of Stash's API against plain restic and their limits, on the box
    Sessions(sessions::Args),
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.comparison {
        Some(Comparison::Repository(args)) => repository::run(args),
        Some(Comparison::Scale(args)) => scale::run(args),
        Some(Comparison::Cluster(args)) => cluster::run(args),
        Some(Comparison::Volumes(args)) => volumes::run(args),
        Some(Comparison::Sessions(args)) => sessions::run(args),
        None => {
            let all = Names::command();
            println!("{} comparison(s)", all.get_subcommands().count());
            for each in all.get_subcommands() {
                println!("  {}  {}", each.get_name(), each.get_about().cloned().unwrap_or_default());
            }
            Ok(())
        }
    }
}

/// The comparisons as clap subcommands.
#[derive(clap::Parser)]
struct Names {
    #[command(subcommand)]
    _comparison: Comparison,
}

/// Fails if the older build cannot be measured; called before anything is compiled.
fn require_program(program: Option<&Path>) -> Result<()> {
    let Some(program) = program else { return Ok(()) };
    run::output(Command::new(program).args(["version", "--client-only"]))
        .with_context(|| format!("{} is no Lifeboat that runs here", program.display()))
        .map(drop)
}

/// Prints the end of a measurement, after its table: the aims, the duration and the machine. Writes the rows if `json` is
/// set.
fn close<R: serde::Serialize>(
    began: Instant,
    verdicts: &[String],
    rows: &[R],
    json: Option<&Path>,
) -> Result<()> {
    println!("\nAims");
    for verdict in verdicts {
        println!("- {verdict}");
    }
    finish(began, rows, json)
}

/// Prints the end of a measurement with `--baseline`: the table, the duration and the machine. Writes the rows of every
/// turn if `json` is set. Fails with every figure that is over the limit.
fn close_compared<R: serde::Serialize>(
    began: Instant,
    figures: &[Figure],
    rows: &[R],
    json: Option<&Path>,
) -> Result<()> {
    let compared = baseline::compare(figures);
    print!("{}", baseline::table(&compared));
    finish(began, rows, json)?;
    baseline::judge(&compared)
}

/// Prints the duration and the machine; writes the rows if `json` is set.
fn finish<R: serde::Serialize>(began: Instant, rows: &[R], json: Option<&Path>) -> Result<()> {
    println!("\n{} minutes; {}", began.elapsed().as_secs() / 60, machine());
    if let Some(path) = json {
        let text = serde_json::to_string_pretty(rows)?;
        fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// A description of the machine on which the numbers were measured.
fn machine() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{cores} cores, {}", model.map_or("unknown processor", |(_, name)| name))
}
