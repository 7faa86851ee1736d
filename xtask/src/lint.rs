//! `cargo xtask lint`: format, clippy with warnings denied, the directions between crates, cycles between modules, sizes
//! of files and functions, errors that are text, paths that ARCHITECTURE.md names, banned crates, generated files. Green
//! means that a reviewer can read for meaning alone.

mod cycles;
mod directions;
mod known;
mod locked;
mod paths;
mod results;
mod sizes;
mod source;

use std::cell::OnceCell;
use std::process::Command;

use anyhow::Result;

use crate::{generate, run};
use source::Target;

#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// Only this check: fmt, directions, cycles, sizes, results, paths, locked, clippy or generated
    #[arg(long)]
    only: Option<String>,
}

/// What a check reads.
#[derive(Default)]
struct Workspace {
    /// Parsed once, because three checks read it.
    sources: OnceCell<Vec<Target>>,
}

impl Workspace {
    fn sources(&self) -> Result<&[Target]> {
        if self.sources.get().is_none() {
            let _ = self.sources.set(source::workspace(&run::checkout())?);
        }
        Ok(self.sources.get().map_or(&[], Vec::as_slice))
    }
}

/// A name and what it checks.
type Check = (&'static str, fn(&Workspace) -> Result<()>);

const CHECKS: [Check; 9] = [
    ("fmt", |_| fmt()),
    ("directions", |_| directions::check(&run::checkout())),
    ("cycles", |workspace| cycles::check(workspace.sources()?)),
    ("sizes", |workspace| sizes::check(workspace.sources()?)),
    ("results", |workspace| results::check(workspace.sources()?)),
    ("paths", |_| paths::check(&run::checkout())),
    ("locked", |_| locked::check(&run::checkout())),
    ("clippy", |_| clippy()),
    ("generated", |_| generate::check()),
];

pub(crate) fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::default();
    for (name, check) in CHECKS {
        if args.only.as_deref().is_none_or(|only| only == name) {
            check(&workspace)?;
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
        let workspace = Workspace::default();
        for (name, check) in CHECKS {
            if ["cycles", "sizes", "results"].contains(&name) {
                check(&workspace).unwrap();
            }
        }
    }
}
