//! `cargo xtask bench`: speed, always as a ratio to a peer measured in the same run on the same machine. Each
//! capability adds its comparison here and its table to bench/README.md.

mod cluster;
mod content;
mod measure;
mod process;
mod repository;
mod scale;
mod volumes;

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::{CommandFactory, Subcommand};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    comparison: Option<Comparison>,
}

#[derive(Subcommand)]
enum Comparison {
    /// The repository engine against restic and kopia
    Repository(repository::Args),
    /// The repository engine at sizes that must not need more memory: files, a volume, an index
    Scale(scale::Args),
    /// Backup and restore of objects against Velero, on the box
    Cluster(cluster::Args),
    /// Backup and restore of volumes against Velero with its node agent and plain restic, on the box
    Volumes(volumes::Args),
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.comparison {
        Some(Comparison::Repository(args)) => repository::run(args),
        Some(Comparison::Scale(args)) => scale::run(args),
        Some(Comparison::Cluster(args)) => cluster::run(args),
        Some(Comparison::Volumes(args)) => volumes::run(args),
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

/// The comparisons as clap knows them.
#[derive(clap::Parser)]
struct Names {
    #[command(subcommand)]
    _comparison: Comparison,
}

/// The end of a measurement, after its table: the aims, how long it took and on what; the rows, where they are wanted.
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
    println!("\n{} minutes; {}", began.elapsed().as_secs() / 60, machine());
    if let Some(path) = json {
        let text = serde_json::to_string_pretty(rows)?;
        fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// What the numbers were measured on.
fn machine() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{cores} cores, {}", model.map_or("unknown processor", |(_, name)| name))
}
