//! `cargo xtask gen`: writes the files that are generated from the code (custom resource definitions and templates of
//! the chart, the CLI reference, the reference of the plugin protocol), or with `--check` compares them. The generator
//! is an example of crate `cli`; this module runs it and writes the files.

mod protocol;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::run;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Compare instead of writing; fails if a file is not up to date
    #[arg(long)]
    check: bool,
}

/// Directories that contain only generated files: any other file there is removed.
const OWNED: [&str; 3] = ["charts/lifeboat/crds", "charts/lifeboat/templates", "docs/reference"];

/// Files that are written by hand except for values that follow from the code: they are in every generator's output.
const PARTLY: [&str; 1] = ["charts/lifeboat/values.yaml"];

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.check { check() } else { write() }
}

pub(crate) fn check() -> Result<()> {
    compare(&generated(&mut generator())?)
}

/// Compares, with a generator that is already compiled.
pub(crate) fn check_with(generator: &Path) -> Result<()> {
    compare(&generated(Command::new(generator).current_dir(run::checkout()))?)
}

fn compare(wanted: &BTreeMap<PathBuf, String>) -> Result<()> {
    let present = present()?;
    let mut wrong = Vec::new();
    for (path, text) in wanted {
        match present.get(path) {
            None => wrong.push(format!("{} is missing", path.display())),
            Some(old) if old != text => wrong.push(format!("{} is not up to date", path.display())),
            Some(_) => {}
        }
    }
    wrong.extend(
        present
            .keys()
            .filter(|path| !wanted.contains_key(*path))
            .map(|p| format!("{} is left over", p.display())),
    );
    if !wrong.is_empty() {
        bail!("generated files differ; run `cargo xtask gen` and commit:\n  {}", wrong.join("\n  "));
    }
    Ok(())
}

fn write() -> Result<()> {
    let root = run::checkout();
    let wanted = generated(&mut generator())?;
    for path in present()?.keys().filter(|path| !wanted.contains_key(*path)) {
        fs::remove_file(root.join(path)).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    for (path, text) in &wanted {
        let full = root.join(path);
        fs::create_dir_all(full.parent().unwrap_or(&root))?;
        fs::write(&full, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    println!("{} files generated", wanted.len());
    Ok(())
}

fn generator() -> Command {
    let mut command = run::cargo();
    command.args(["run", "--quiet", "--package", "lifeboat-cli", "--example", "generate"]);
    command
}

/// The generated files, by path in the checkout.
fn generated(generator: &mut Command) -> Result<BTreeMap<PathBuf, String>> {
    let text = run::output(generator)?;
    let mut files: BTreeMap<PathBuf, String> =
        serde_json::from_str(&text).context("cannot read what the generator printed")?;
    let (path, page) = protocol::page()?;
    files.insert(path, page);
    Ok(files)
}

/// The files in the generated directories of the checkout, and files of which a part is generated.
fn present() -> Result<BTreeMap<PathBuf, String>> {
    let root = run::checkout();
    let mut files = BTreeMap::new();
    for path in PARTLY {
        let text = fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))?;
        files.insert(PathBuf::from(path), text);
    }
    for directory in OWNED {
        collect(&root, &root.join(directory), &mut files)?;
    }
    Ok(files)
}

fn collect(root: &Path, directory: &Path, files: &mut BTreeMap<PathBuf, String>) -> Result<()> {
    let Ok(entries) = fs::read_dir(directory) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, files)?;
        } else {
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            files.insert(path.strip_prefix(root)?.to_path_buf(), text);
        }
    }
    Ok(())
}
