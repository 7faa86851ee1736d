//! `cargo xtask bench`: speed, always as a ratio to a peer measured in the same run on the same machine. Each
//! capability adds its comparison here and its table to bench/README.md.

use anyhow::{Result, bail};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which comparison to run; none: list them
    name: Option<String>,
}

/// Name, what it compares, and the function that runs it.
type Comparison = (&'static str, &'static str, fn() -> Result<()>);

/// The foundation moves no data yet; the first comparison comes with the repository engine.
const COMPARISONS: [Comparison; 0] = [];

pub(crate) fn run(args: &Args) -> Result<()> {
    let Some(wanted) = &args.name else {
        println!("{} comparisons", COMPARISONS.len());
        for (name, what, _) in COMPARISONS {
            println!("  {name}  {what}");
        }
        return Ok(());
    };
    match COMPARISONS.iter().find(|(name, ..)| name == wanted) {
        Some((_, _, run)) => run(),
        None => bail!("there is no comparison {wanted:?}; `cargo xtask bench` lists them"),
    }
}
