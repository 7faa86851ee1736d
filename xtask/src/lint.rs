//! `cargo xtask lint`: format, clippy with warnings denied, the directions between crates, cycles between modules, kinds of
//! one API in code for any API, sizes of files and functions, errors that are text, reads of the system time, names that
//! leave the process, paths that ARCHITECTURE.md names, banned crates, generated files. Green means that a reviewer can
//! read for meaning alone.

mod clock;
mod cycles;
mod directions;
mod known;
mod locked;
mod names;
mod neutral;
mod paths;
mod results;
mod sizes;
mod source;
mod uses;

use std::cell::OnceCell;
use std::process::Command;

use anyhow::Result;

use crate::{generate, run};
use source::{Target, Tests};

#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// Only this check: fmt, directions, cycles, neutral, sizes, results, clock, names, paths, locked, clippy or generated
    #[arg(long)]
    only: Option<String>,
}

/// The parsed source, read once, because several checks need it.
#[derive(Default)]
struct Workspace {
    sources: OnceCell<Vec<Target>>,
}

impl Workspace {
    fn sources(&self) -> Result<&[Target]> {
        if self.sources.get().is_none() {
            let _ = self.sources.set(source::workspace(&run::checkout(), Tests::Removed)?);
        }
        Ok(self.sources.get().map_or(&[], Vec::as_slice))
    }
}

/// A name and what it checks.
type Check<'a> = (&'static str, &'a dyn Fn() -> Result<()>);

pub(crate) fn run(args: &Args) -> Result<()> {
    each(args.only.as_deref(), clippy, generate::check)
}

/// Runs every check, or only one. A caller that has compiled the code already passes its own results for clippy and the
/// generated files.
pub(crate) fn each(
    only: Option<&str>,
    clippy: impl Fn() -> Result<()>,
    generated: impl Fn() -> Result<()>,
) -> Result<()> {
    let (root, workspace) = (run::checkout(), Workspace::default());
    let checks: [Check<'_>; 12] = [
        ("fmt", &fmt),
        ("directions", &|| directions::check(&root)),
        ("cycles", &|| cycles::check(workspace.sources()?)),
        ("neutral", &|| neutral::check(workspace.sources()?)),
        ("sizes", &|| sizes::check(workspace.sources()?, &source::workspace(&root, Tests::Kept)?)),
        ("results", &|| results::check(workspace.sources()?)),
        ("clock", &|| clock::check(workspace.sources()?)),
        ("names", &|| names::check(&root, workspace.sources()?)),
        ("paths", &|| paths::check(&root)),
        ("locked", &|| locked::check(&root)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_workspace_passes_the_lints_of_its_sources() {
        for only in ["directions", "cycles", "neutral", "sizes", "results", "clock", "names", "paths"] {
            each(Some(only), || Ok(()), || Ok(())).expect(only);
        }
    }
}
