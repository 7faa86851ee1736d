//! `cargo xtask lint`: format, clippy with warnings denied, the directions between crates, banned crates, names that
//! leave the process, generated files. Green means that a reviewer can read for meaning alone.

mod directions;
mod locked;
mod names;

use std::process::Command;

use anyhow::Result;

use crate::{generate, run};

#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// Only this check: fmt, directions, locked, names, clippy or generated
    #[arg(long)]
    only: Option<String>,
}

/// A name and what it checks.
type Check<'a> = (&'static str, &'a dyn Fn() -> Result<()>);

pub(crate) fn run(args: &Args) -> Result<()> {
    each(args.only.as_deref(), clippy, generate::check)
}

/// Every check, or only one. A caller that has compiled the code already passes its own results for clippy and the
/// generated files.
pub(crate) fn each(
    only: Option<&str>,
    clippy: impl Fn() -> Result<()>,
    generated: impl Fn() -> Result<()>,
) -> Result<()> {
    let checks: [Check<'_>; 6] = [
        ("fmt", &fmt),
        ("directions", &directions),
        ("locked", &locked),
        ("names", &names),
        ("clippy", &clippy),
        ("generated", &generated),
    ];
    for (name, check) in checks {
        if only.is_none_or(|only| only == name) {
            check()?;
            println!("lint: {name} ok");
        }
    }
    Ok(())
}

fn fmt() -> Result<()> {
    run::run(run::cargo().args(["fmt", "--all", "--check"]))
}

fn directions() -> Result<()> {
    directions::check(&run::checkout())
}

fn locked() -> Result<()> {
    locked::check(&run::checkout())
}

fn names() -> Result<()> {
    names::check(&run::checkout())
}

fn clippy() -> Result<()> {
    let mut command: Command = run::cargo();
    command.args([
        "clippy",
        "--quiet",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--",
        "-D",
        "warnings",
    ]);
    run::run(&mut command)
}
