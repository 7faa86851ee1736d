//! `cargo xtask image`: makes image archives without a container engine.
//!
//! Takes the workspace (for `lifeboat`) or the machine's Debian packages (for the test images) and gives archives
//! that `ctr images import`, `podman load` and `docker load` read. `box load`, the demo and the e2e tests call
//! [`lifeboat`], [`debian`], [`databases`] and [`plugins`], `bench volumes` [`velero`]. How it works and what is in each image: docs/images.md.
mod debian;
mod elf;
mod host_files;
mod layer;
mod lifeboat;
mod oci;
mod plugins;
mod program;
mod recipes;
mod sources;
mod velero;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::run;

/// The reference of the `lifeboat` image unless `--tag` is given. With `localhost/` no runtime completes it to a public
/// registry.
pub(crate) const LIFEBOAT: &str = "localhost/lifeboat:dev";
/// A small Debian with what the sample app and the tests need.
pub(crate) const DEBIAN: &str = "localhost/lifeboat-test/debian:bookworm";
/// MariaDB and PostgreSQL, for the tests that back up real databases.
pub(crate) const DATABASES: &str = "localhost/lifeboat-test/databases:bookworm";
/// Genuine Velero, for its node agents.
pub(crate) const VELERO: &str = "localhost/lifeboat-test/velero:v1.18.3";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which image to make
    #[arg(value_enum, default_value_t = Which::Lifeboat)]
    which: Which,
    /// Build `lifeboat` with link-time optimisation, as it is published
    #[arg(long)]
    release: bool,
    /// Put the archives here instead of the target directory and the machine's cache
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// The tag of the `lifeboat` image, or a whole reference such as `registry.example/lifeboat:1.0`
    #[arg(long, default_value = "dev")]
    tag: String,
    /// Load the archives into the box
    #[arg(long)]
    load: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    Lifeboat,
    Debian,
    Databases,
    /// Plugins that the tests run: Velero's for S3, recording ones in Go, the examples
    Plugins,
    All,
}

/// How `lifeboat` is compiled; the names are cargo profiles of the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    Fast,
    Release,
}

impl Profile {
    fn name(self) -> &'static str {
        match self {
            Profile::Fast => "fast",
            Profile::Release => "release",
        }
    }
}

pub(crate) fn run(args: Args) -> Result<()> {
    let Args { which, release, output, tag, load } = args;
    let wants = |image| which == image || which == Which::All;
    let mut archives = Vec::new();
    if wants(Which::Lifeboat) {
        let profile = if release { Profile::Release } else { Profile::Fast };
        archives.push(lifeboat::build(profile, &lifeboat::reference(&tag)?)?);
    }
    if wants(Which::Debian) {
        archives.push(debian()?);
    }
    if wants(Which::Databases) {
        archives.push(databases()?);
    }
    if wants(Which::Plugins) {
        archives.extend(plugins::build(|name| program::build(name, Profile::Fast))?);
    }
    for archive in archives {
        let archive = match &output {
            Some(directory) => copy_into(directory, &archive)?,
            None => archive,
        };
        println!("{}", archive.display());
        if load {
            load_into_box(&archive)?;
        }
    }
    Ok(())
}

/// Builds `lifeboat` if needed and returns its archive, tagged [`LIFEBOAT`].
pub(crate) fn lifeboat(profile: Profile) -> Result<PathBuf> {
    lifeboat::build(profile, LIFEBOAT)
}

/// Builds `lifeboat` if needed and returns the program, the same one that is in the image.
pub(crate) fn binary(profile: Profile) -> Result<PathBuf> {
    lifeboat::binary(profile)
}

/// The archive of an existing `lifeboat` program, tagged [`LIFEBOAT`].
pub(crate) fn lifeboat_of(program: &Path) -> Result<PathBuf> {
    lifeboat::pack(program, Profile::Fast, LIFEBOAT)
}

/// Adds to a cargo command the profile and flags of programs in images, and returns the target that it builds for.
pub(crate) fn link_statically(command: &mut Command, profile: Profile) -> Result<String> {
    program::link_statically(command, profile)
}

/// The archive of [`DEBIAN`], from the machine's cache or built now.
pub(crate) fn debian() -> Result<PathBuf> {
    debian::build(&recipes::DEBIAN)
}

/// The archive of [`DATABASES`], from the machine's cache or built now.
pub(crate) fn databases() -> Result<PathBuf> {
    debian::build(&recipes::DATABASES)
}

/// The archives of plugin images; `example` returns the program of an example of our SDK.
pub(crate) fn plugins(example: impl Fn(&str) -> Result<PathBuf>) -> Result<Vec<PathBuf>> {
    plugins::build(example)
}

/// The archive of [`VELERO`].
pub(crate) fn velero() -> Result<PathBuf> {
    velero::build()
}

/// Prints a line about the current step.
fn progress(text: &str) {
    eprintln!("image: {text}");
}

fn copy_into(directory: &Path, archive: &Path) -> Result<PathBuf> {
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let name = archive.file_name().context("an archive path ends in a file name")?;
    let target = directory.join(name);
    fs::copy(archive, &target)
        .with_context(|| format!("cannot copy {} to {}", archive.display(), target.display()))?;
    Ok(target)
}

/// Loads with this program's own command line, so that only the box's code knows how.
fn load_into_box(archive: &Path) -> Result<()> {
    let xtask = std::env::current_exe().context("cannot find the running xtask")?;
    run::run(Command::new(xtask).args(["box", "load"]).arg(archive))
}
