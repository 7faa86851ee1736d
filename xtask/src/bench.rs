//! `cargo xtask bench`: speed, always as a ratio to a peer measured in the same run on the same machine. Each
//! capability adds its comparison here and its table to bench/README.md.

mod content;
mod measure;
mod repository;
mod scale;

use anyhow::Result;
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
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.comparison {
        Some(Comparison::Repository(args)) => repository::run(args),
        Some(Comparison::Scale(args)) => scale::run(args),
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
